"""Keeps what was captured when the program is asked to end by SIGTERM, then lets it end as it would have.

Python runs a handler between two of its instructions. A program that hangs in native code (a collective that another
host never joins, a device that does not answer) never comes to the next one, but ends on SIGTERM without tpuprof. So a
native thread counts the time (`_watched_end.c`). Where that module is missing, only Python's handler is there.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from tpuprof.instrument.hidden_thread import HiddenThread
from tpuprof.instrument.state import pass_on

in_time: Any
try:
    from tpuprof.capture import _in_time as in_time
except ImportError:  # no compiler built it
    in_time = None

# Native code that keeps Python's handler waiting longer than this is taken for a hang, and another thread keeps what
# was captured (s). The handler begins within milliseconds where Python runs. `docker stop` kills after 10 s, Kubernetes
# after 30 s: enough of both must be left to write a capture.
OVERDUE_S = 2
# Where no thread of Python runs so long after the signal, native code keeps the global lock, and nothing can be kept
# (s). Less than the 10 s of `docker stop`: the process ends by the signal it was sent.
LOST_S = 8
# Time in which a capture is written; a device that hangs can keep it from ever ending (s). Writing took 20 s at most in
# our captures. A large trace on a slow disk has six times that.
CLOSING_S = 120

_handlers: list[object] = []
_closers: list[_Termination] = []


class _Termination:
    """What follows a SIGTERM: the capture is closed once, and the process ends."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self._begun = threading.Lock()
        self._native = False
        self._thread = HiddenThread(self._when_overdue)

    def prepare(self) -> None:
        """Handle the signal from now on. Raises nothing."""
        _handlers.append(self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)
        if in_time is None:
            return
        try:
            self._native = in_time.watch(OVERDUE_S, LOST_S, CLOSING_S)
            if self._native:
                self._thread.start()
        except Exception as error:  # no thread can be started: the native one still ends the process
            pass_on(error)

    def wait(self) -> None:
        """At the program's own end: let a thread that has begun to close come to its end."""
        if self._native and self._begun.locked() and not self._thread.is_current:
            self._thread.join(CLOSING_S)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._close_and_end()

    def _when_overdue(self) -> None:
        in_time.wait_overdue()
        self._close_and_end()

    def _close_and_end(self) -> None:
        # A second signal, which comes where a whole group of processes is ended, must not cut the first short. Nor may
        # this thread wait for the one that closes: it may hold a lock which that one needs.
        if not self._begun.acquire(blocking=False):
            return
        if self._native:
            in_time.begun()
        try:
            self._close()
        finally:
            self._end()

    def _end(self) -> None:
        if self._native:
            in_time.end()
        else:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)


def close_on_terminate(close: Callable[[], None]) -> None:
    """Call `close` when the program is asked to end, then end it by the signal. Not where the program handles it."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL or _caught_by_a_library():
        return  # the program has its own way to end, and atexit follows it
    termination = _Termination(close)
    termination.prepare()
    _closers.append(termination)


def wait_until_closed() -> None:
    """Called last at the program's end: a thread that keeps what was captured must not be cut short."""
    for termination in _closers:
        termination.wait()


def forget_terminate() -> None:
    """In a forked process: SIGTERM ends it again, as it does without a capture."""
    _closers.clear()
    if signal.getsignal(signal.SIGTERM) in _handlers:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _caught_by_a_library() -> bool:
    """Whether compiled code handles SIGTERM, which Python does not see: JAX's notice of preemption does (Linux)."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            caught = next(line for line in file if line.startswith("SigCgt:"))
    except (OSError, StopIteration) as error:
        pass_on(error)
        return False
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
