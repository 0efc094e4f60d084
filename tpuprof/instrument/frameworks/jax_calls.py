"""Puts reads of JAX arrays, copies to the device and waits on the host timeline, with the line that makes them.

Methods of JAX's arrays are wrapped while a capture runs, and put back afterwards.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from tpuprof.instrument.same_arrays import SameArrays
from tpuprof.instrument.spans import Span
from tpuprof.instrument.state import STATE, pass_on
from tpuprof.instrument.wrapped_calls import Function, Replaced, around, call_span, with_event
from tpuprof.own_events import HOST_READ, UPLOAD

# What Python calls for an index. JAX asks each exponent of `**` for it, too: what is not one integer raises there.
_INDEX = "__index__"
_READS = ("__float__", "__int__", "__bool__", _INDEX, "__array__", "__format__", "item", "tolist")
_WAIT = "block_until_ready"
# Calls that copy arrays to devices; the first is in every JAX.
_PUTS = ("device_put", "device_put_replicated", "device_put_sharded")
_replaced = Replaced()
_put = SameArrays()


def install() -> list[str]:
    """Wrap what can be wrapped; returns a note for each thing that could not."""
    notes: list[str] = []
    array = getattr(sys.modules.get("jax._src.array"), "ArrayImpl", None)
    jax = sys.modules.get("jax")
    if jax is None or _replaced:
        return notes
    wanted = [(array, name, _indexing if name == _INDEX else _reading) for name in (*_READS, _WAIT)]
    wanted += [(jax, _WAIT, _reading), (jax, "device_get", _reading)]
    wanted += [(jax, name, _putting) for name in _PUTS if name == _PUTS[0] or name in vars(jax)]
    for owner, name, made in wanted:
        try:
            _replaced.replace(owner, name, partial(made, name))
        except (AttributeError, TypeError) as error:
            pass_on(error)
            notes.append(f"a read is missing from the timeline: {error}")
    return notes


def remove() -> None:
    """Put everything back."""
    _replaced.put_back()
    _put.forget()


def _reading(name: str, original: Function) -> Function:
    """A call that reads an array or waits for it, inside an event."""
    return with_event(HOST_READ, name, original)


def _indexing(name: str, original: Function) -> Function:
    """A call that reads an array as an index, inside an event where it is one integer: else nothing is read."""

    def reads(args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Span | None:
        array = args[0] if args else None
        kind, dimensions = getattr(getattr(array, "dtype", None), "kind", "i"), getattr(array, "ndim", 0)
        if not STATE.armed or dimensions or kind not in "iu":
            return None
        return call_span(HOST_READ, name)

    return around(original, reads)


def _putting(name: str, original: Function) -> Function:
    """A call that copies arrays inside an event, which says whether it copies what it copied before."""

    def puts(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Span | None:
        if not STATE.armed:
            return None
        given = args[0] if args else next((kwargs[each] for each in ("x", "shards") if each in kwargs), None)
        return call_span(UPLOAD, name, again=int(_put.again(given)))

    return around(original, puts)
