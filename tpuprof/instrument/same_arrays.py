"""Tells whether an array that is copied to the device is the one that was copied before, with the same content."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from tpuprof.instrument.state import pass_on

# Numbers of a NumPy array that are compared, spread over it: a buffer that is filled again differs in some of them.
COMPARED = 256
# Arrays of one call that are looked at, and arrays remembered: a model's parameters are fewer.
MOST_LEAVES, MOST_KEPT = 512, 4096


class SameArrays:
    """The arrays seen so far, by their identity; they are not kept alive."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[weakref.ref[Any], object]] = {}

    def again(self, value: Any) -> bool:
        """Whether every array of a value (one, or dicts, lists and tuples of them) was seen before, unchanged.

        No where it holds anything else, or more than is looked at. Raises nothing.
        """
        try:
            leaves: list[Any] = []
            if not _leaves(value, leaves) or not leaves:
                return False
            # All are looked at, so that all are remembered.
            seen = [self._again(each) for each in leaves]
            return all(seen)
        except Exception as error:  # an odd array: the program's own call says what is wrong with it
            pass_on(error)
            return False

    def forget(self) -> None:
        """Forget them all."""
        self._seen.clear()

    def _again(self, array: Any) -> bool:
        state = _state(array)
        known = self._seen.get(id(array))
        if len(self._seen) >= MOST_KEPT and known is None:
            self._seen.clear()
        self._seen[id(array)] = weakref.ref(array), state
        return known is not None and known[0]() is array and known[1] == state


def _leaves(value: Any, found: list[Any]) -> bool:
    if isinstance(value, Mapping | list | tuple):
        inside = value.values() if isinstance(value, Mapping) else value
        return all(_leaves(each, found) for each in inside)
    found.append(value)
    return len(found) <= MOST_LEAVES and _is_array(value)


def _is_array(value: Any) -> bool:
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return not value.dtype.hasobject
    return _of_jax(value) or (torch is not None and isinstance(value, torch.Tensor))


def _of_jax(value: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, getattr(jax, "Array", ()))


def _state(array: Any) -> object:
    """What changes where an array's content does: torch counts its writes, of NumPy's some numbers are compared.

    An array of JAX does not change.
    """
    if _of_jax(array):
        return None
    version = getattr(array, "_version", None)
    if version is not None:
        return version, array.data_ptr()
    stride = max(array.size // COMPARED, 1)
    return array.shape, array.ctypes.data, crc32(array.flat[::stride].tobytes())
