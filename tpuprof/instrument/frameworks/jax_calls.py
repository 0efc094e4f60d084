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

_READS = ("__float__", "__int__", "__bool__", "__index__", "__array__", "__format__", "item", "tolist")
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
    wanted = [(array, name, HOST_READ) for name in (*_READS, _WAIT)]
    wanted += [(jax, _WAIT, HOST_READ), (jax, "device_get", HOST_READ)]
    wanted += [(jax, name, UPLOAD) for name in _PUTS if name == _PUTS[0] or name in vars(jax)]
    for owner, name, event in wanted:
        try:
            made = partial(_putting if event == UPLOAD else partial(with_event, event), name)
            _replaced.replace(owner, name, made)
        except (AttributeError, TypeError) as error:
            pass_on(error)
            notes.append(f"a read is missing from the timeline: {error}")
    return notes


def remove() -> None:
    """Put everything back."""
    _replaced.put_back()
    _put.forget()


def _putting(name: str, original: Function) -> Function:
    """A call that copies arrays inside an event, which says whether it copies what it copied before."""

    def puts(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Span | None:
        if not STATE.armed:
            return None
        given = args[0] if args else next((kwargs[each] for each in ("x", "shards") if each in kwargs), None)
        return call_span(UPLOAD, name, again=int(_put.again(given)))

    return around(original, puts)
