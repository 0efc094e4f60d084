"""Puts reads of JAX arrays, copies to the device and waits on the host timeline, with the line that makes them.

Methods of JAX's arrays are wrapped while a capture runs, and put back afterwards.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from tpuprof.instrument.host_events import user_line
from tpuprof.instrument.spans import close_span, open_span
from tpuprof.instrument.state import STATE

READ_EVENT, UPLOAD_EVENT = "tpuprof.host_read", "tpuprof.upload"
_READS = ("__float__", "__int__", "__bool__", "__index__", "__array__", "__format__", "item", "tolist")
_WAIT = "block_until_ready"
_undo: list[Callable[[], None]] = []


def install() -> list[str]:
    """Wrap what can be wrapped; returns a note for each thing that could not."""
    notes: list[str] = []
    array = getattr(sys.modules.get("jax._src.array"), "ArrayImpl", None)
    jax = sys.modules.get("jax")
    if jax is None or _undo:
        return notes
    wanted = [(array, name, READ_EVENT) for name in (*_READS, _WAIT)]
    wanted += [(jax, _WAIT, READ_EVENT), (jax, "device_get", READ_EVENT), (jax, "device_put", UPLOAD_EVENT)]
    for owner, name, event in wanted:
        try:
            _wrap(owner, name, event)
        except (AttributeError, TypeError) as error:
            notes.append(f"a read is missing from the timeline: {error}")
    return notes


def remove() -> None:
    """Put everything back, last first."""
    while _undo:
        _undo.pop()()


def _wrap(owner: Any, name: str, event: str) -> None:
    original = getattr(owner, name)
    mark = event.partition(".")[2]

    # Methods of compiled classes may have no name that Python accepts.
    named = [each for each in functools.WRAPPER_ASSIGNMENTS if isinstance(getattr(original, each, None), str)]

    @functools.wraps(original, assigned=named)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not STATE.armed:
            return original(*args, **kwargs)
        span = open_span(event, mark, call=name, source=user_line())
        try:
            return original(*args, **kwargs)
        finally:
            close_span(span)

    setattr(owner, name, wrapped)
    _undo.append(lambda: setattr(owner, name, original))
