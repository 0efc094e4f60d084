"""Cuts the profiler's Chrome JSON down to a few steps and redacts every text in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tpuprof.decode.chrome_trace import time_of
from tpuprof.units import NS_PER_US

if TYPE_CHECKING:
    from tpuprof.share.trim import Window

# Phase of the events that name processes and threads.
_NAMES = "M"


def cut_down(document: Any, window: Window | None, text: Callable[[str], str]) -> Any:
    """A copy with the events of the window, all of them without one, and every text redacted.

    Raises `ValueError` where the document has no list of events.
    """
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise ValueError("no list of trace events")
    kept = [each for each in events if window is None or _belongs(each, window)]
    rest = (
        {key: each for key, each in document.items() if key != "traceEvents"}
        if isinstance(document, dict)
        else {}
    )
    return _redacted({**rest, "traceEvents": kept}, text)


def _belongs(event: Any, window: Window) -> bool:
    if not isinstance(event, dict) or event.get("ph") == _NAMES:
        return isinstance(event, dict)
    begin, length = time_of(event.get("ts")), time_of(event.get("dur"))
    if begin is None:
        return False
    end = begin + (length or 0.0)
    return begin < window.end_ns / NS_PER_US and end > window.start_ns / NS_PER_US


def _redacted(value: Any, text: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict):
        return {text(key): _redacted(each, text) for key, each in value.items()}
    if isinstance(value, list):
        return [_redacted(each, text) for each in value]
    return value
