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
_PUT = "device_put"
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
    wanted += [(jax, _WAIT, HOST_READ), (jax, "device_get", HOST_READ), (jax, _PUT, UPLOAD)]
    for owner, name, event in wanted:
        try:
            made = _putting if name == _PUT else partial(with_event, event, name)
            _replaced.replace(owner, name, made)
        except (AttributeError, TypeError) as error:
            pass_on(error)
            notes.append(f"a read is missing from the timeline: {error}")
    return notes


def remove() -> None:
    """Put everything back."""
    _replaced.put_back()
    _put.forget()


def _putting(original: Function) -> Function:
    """`device_put` inside an event, which says whether it copies what it copied before."""

    def puts(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Span | None:
        if not STATE.armed:
            return None
        again = _put.again(args[0] if args else kwargs.get("x"))
        return call_span(UPLOAD, _PUT, again=int(again))

    return around(original, puts)
