"""Stands around torch_xla's graph cut: lifts open scopes over it and tells who listens that it happened.

`torch_xla.sync()`, `xm.mark_step()`, `torch_xla.step()` and MpDeviceLoader all end in one function of the
extension, looked up by name at each call; so one replacement covers them, and is put back afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tpuprof.instrument.spans import resume_scopes, suspend_scopes
from tpuprof.instrument.state import note_failure, xlac
from tpuprof.instrument.wrapped_calls import Function, Replaced

_CUT = "_xla_step_marker"

Observer = Callable[[], None]
_WHAT = "the graph-cut guard"
_before: list[Observer] = []
_after: list[Observer] = []
_replaced = Replaced()


class _Threads(threading.local):
    """Whether this thread is in a graph cut, and whether that one was asked to wait for the device."""

    cuts = False
    waits = False


_threads = _Threads()


def install() -> bool:
    """Put the guard in place; False where torch_xla is not loaded. Doing it twice is harmless."""
    extension = xlac()
    if extension is None:
        return False
    if not _replaced:
        _replaced.replace(extension, _CUT, _guard)
    return True


def remove() -> None:
    """Put torch_xla's own function back. Where the program has wrapped the guard since, it stays, and does nothing."""
    _replaced.put_back()


def observe(before: Observer | None = None, after: Observer | None = None) -> None:
    """Have `before` and `after` called around each graph cut, in the thread that makes it."""
    if before:
        _before.append(before)
    if after:
        _after.append(after)


def stop_observing(before: Observer | None = None, after: Observer | None = None) -> None:
    """Call these no more; once nobody observes, torch_xla's own function is put back."""
    for observers, observer in ((_before, before), (_after, after)):
        if observer in observers:
            observers.remove(observer)
    if not _before and not _after:
        remove()


def waits() -> bool:
    """Whether the graph cut that this thread makes was asked to wait for the device."""
    return _threads.waits


def _guard(original: Function) -> Function:
    def guarded(*args: Any, **kwargs: Any) -> Any:
        # A guard that the program has wrapped may lie inside a new one.
        if not _replaced.undo or _threads.cuts:
            return original(*args, **kwargs)
        _threads.cuts = True
        _threads.waits = bool(kwargs.get("wait", args[2] if len(args) > 2 else False))
        try:
            _call_each((suspend_scopes, *_before))
            return original(*args, **kwargs)
        finally:
            _call_each((resume_scopes, *_after))
            _threads.cuts = False

    return guarded


def _call_each(observers: tuple[Observer, ...]) -> None:
    for observer in observers:
        try:
            observer()
        except Exception as error:
            note_failure(_WHAT, error)
