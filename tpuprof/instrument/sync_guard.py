"""Stands around torch_xla's graph cut: lifts open scopes over it and tells who listens that it happened.

`torch_xla.sync()`, `xm.mark_step()`, `torch_xla.step()` and MpDeviceLoader all end in one function of the
extension, looked up by name at each call; so one replacement covers them, and is put back afterwards.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from tpuprof.instrument.spans import OPEN, OPENED, resume_scopes, suspend_scopes
from tpuprof.instrument.state import note_failure, xlac
from tpuprof.instrument.step_count import Event, StepCount
from tpuprof.instrument.wrapped_calls import Function, Replaced

_CUT = "_xla_step_marker"

Observer = Callable[[], None]
_WHAT = "the graph-cut guard"
_before: list[Observer] = []
_after: list[Observer] = []
_ended: list[Callable[[float], None]] = []
_replaced = Replaced()


class RestOfCuts(NamedTuple):
    """Cuts that take less than `least` (s) are only counted, as `cut`, where `steps` counts those."""

    steps: StepCount
    cut: Event
    least: float


class _Resting:
    """The rest that is under way, and the native guard, where that is built."""

    rest: RestOfCuts | None = None
    guard: Any = None


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
    _update_guard()


def observe_ends(ended: Callable[[float], None]) -> None:
    """Have `ended` called after each graph cut with the time that it took (s).

    Where nobody else observes, that is all that is done around a cut: a program with many pays for each line of Python.
    """
    _ended.append(ended)


def rest(of_cuts: RestOfCuts | None) -> None:
    """Report only the ends of long cuts from now on, and count the others; with None, report each end again."""
    _Resting.rest = of_cuts
    OPENED.lately = bool(OPEN.stack)
    _update_guard()


def _update_guard() -> None:
    """Have the native guard do all by itself in a rest, unless somebody observes cuts."""
    if _Resting.guard is not None:
        observed = bool(_before or _after)
        _Resting.guard.rest_in(*((not observed and _Resting.rest) or (None, None, 0.0)))


def stop_observing(
    before: Observer | None = None,
    after: Observer | None = None,
    ended: Callable[[float], None] | None = None,
) -> None:
    """Call these no more; once nobody observes, torch_xla's own function is put back."""
    observed: tuple[tuple[list[Any], Any], ...] = ((_before, before), (_after, after), (_ended, ended))
    for observers, observer in observed:
        if observer in observers:
            observers.remove(observer)
    _update_guard()
    if not _before and not _after and not _ended:
        remove()


def waits() -> bool:
    """Whether the graph cut that this thread makes was asked to wait for the device."""
    return _threads.waits


def _guard(original: Function) -> Function:
    usual = _usual(original)
    if _native_guard is None:
        return usual
    _Resting.guard = _native_guard(original, usual, _tell_end, OPENED)
    made: Function = _Resting.guard
    return made


def _usual(original: Function) -> Function:
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if _before or _after or OPEN.stack:
            return _observed(original, args, kwargs)
        began = time.perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            _tell_end(time.perf_counter() - began)

    return guarded


def _tell_end(took: float) -> None:
    rest = _Resting.rest
    if rest is None or took >= rest.least:
        _call_each([partial(each, took) for each in _ended])
    else:
        _call_each([rest.cut.passes])


def _observed(original: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    # A guard that the program has wrapped may lie inside a new one.
    if not _replaced.undo or _threads.cuts:
        return original(*args, **kwargs)
    _threads.cuts = True
    _threads.waits = bool(kwargs.get("wait", args[2] if len(args) > 2 else False))
    began = time.perf_counter()
    try:
        _call_each((suspend_scopes, *_before))
        began = time.perf_counter()
        return original(*args, **kwargs)
    finally:
        took = time.perf_counter() - began
        _call_each((resume_scopes, *_after))
        _tell_end(took)
        _threads.cuts = False


def _call_each(observers: Iterable[Callable[[], object]]) -> None:
    for observer in observers:
        try:
            observer()
        except Exception as error:
            note_failure(_WHAT, error)


try:
    from tpuprof.instrument import _counted

    _native_guard: Callable[..., Any] | None = _counted.CutGuard
except ImportError:  # not built, or for another Python or machine
    _native_guard = None
