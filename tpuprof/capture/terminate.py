"""Keeps what was captured when the program is asked to end by SIGTERM, then lets it end as it would have.

Python runs a handler between two of its instructions. A program that hangs in native code (a collective that another
host never joins, a device that does not answer) never comes to the next one, but ends on SIGTERM without tpuprof. So a
native thread counts the time (`_watched_end.c`). Where that module is missing, only Python's handler is there.

libtpu handles SIGTERM from the start of its runtime on: it writes where the process is, and ends it without Python's
end. Ours comes before that, and then lets libtpu end the process. Other compiled code that handles the signal, as JAX's
notice of preemption does, has training go on, and is left alone.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
# Time in which a capture is written; a device that hangs can keep it from ever ending (s). Chosen, not measured: longer
# than the grace of `docker stop`, Kubernetes and a TPU VM that is preempted (30 s), which kill before.
CLOSING_S = 120

# What the path of the TPU's runtime holds.
LIBTPU = "libtpu"

# Those of this process; more than one where the program took the signal away from the first.
_terminations: list[_Termination] = []
# Threads that end a recording or write a capture now, while training goes on afterwards: a handler interrupts one.
_writing: list[int] = []


class _Termination:
    """What follows a SIGTERM: the capture is closed once, by whoever is first, and the process ends."""

    def __init__(self, close: Callable[[], None], *, of_libtpu: bool = False) -> None:
        self._close = close
        self._of_libtpu = of_libtpu
        self._begun = threading.Lock()
        self._asked = False
        self._waits = False
        self._native = False
        self._thread = HiddenThread(self._when_overdue)

    def prepare(self) -> None:
        """Handle the signal from now on. Raises nothing."""
        if self._of_libtpu and not in_time.keep():
            return
        signal.signal(signal.SIGTERM, self._on_signal)
        if in_time is None:
            return
        # Threads inherit the mask. A signal that one of ours took would neither interrupt a wait of the program's, nor
        # have Python run the handler before its main thread's next wait for the global lock.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._native = in_time.watch(OVERDUE_S, LOST_S, CLOSING_S)
            if self._native:
                self._thread.start()
        except Exception as error:  # no thread can be started: the native one still ends the process
            pass_on(error)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def close_at_exit(self) -> None:
        """At the program's own end: close, or let the thread that has begun to close end the process."""
        if self._begin():
            self._close()
            self.leave()
            if self._asked:
                self._end()
        else:
            self._thread.join(CLOSING_S)

    def leave(self) -> None:
        """Handle the signal no longer, unless the program has taken it already."""
        if signal.getsignal(signal.SIGTERM) == self._on_signal:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if self._of_libtpu:
                in_time.leave()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if threading.get_ident() not in _writing:
            self._close_and_end()
            return
        # The handler interrupts the writer: only after it is there something whole to keep.
        self._asked = self._waits = True
        if self._native:
            in_time.begun()

    def written(self) -> None:
        """The capture is written: end, if the signal came meanwhile."""
        if self._waits:
            self._close_and_end()

    def _when_overdue(self) -> None:
        in_time.wait_overdue()
        self._close_and_end()

    def _close_and_end(self) -> None:
        self._asked = True
        if self._begin():
            try:
                self._close()
            finally:
                self._end()

    def _begin(self) -> bool:
        """Whether the caller is the first, and so the one that closes.

        A second signal, which comes where a whole group of processes is ended, must not cut the first short. Nor may
        its handler wait for the thread that closes: the main thread may hold a lock which that one needs.
        """
        first = self._begun.acquire(blocking=False)
        if first and self._native:
            in_time.begun()
        return first

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
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return  # the program has its own way to end, and atexit follows it
    of_libtpu = in_time is not None and in_time.handled_in(LIBTPU)
    if _caught_by_a_library() and not of_libtpu:
        return
    termination = _Termination(close, of_libtpu=of_libtpu)
    termination.prepare()
    _terminations.append(termination)


def close_at_exit(close: Callable[[], None]) -> None:
    """Call `close` at the program's end.

    A SIGTERM that comes meanwhile ends the program once that is done; a later one ends it at once.
    """
    if not _terminations:
        close()
    while _terminations:
        _terminations.pop().close_at_exit()


@contextmanager
def end_after_writing() -> Iterator[None]:
    """A recording ends, or a capture is written, in this thread: a SIGTERM meanwhile ends the program after it."""
    _writing.append(threading.get_ident())
    try:
        yield
    finally:
        _writing.remove(threading.get_ident())
        for each in _terminations:
            each.written()


def forget() -> None:
    """In a forked process: SIGTERM ends it again, as it does without a capture."""
    while _terminations:
        _terminations.pop().leave()


def _caught_by_a_library() -> bool:
    """Whether compiled code handles SIGTERM, which Python does not see: JAX's notice of preemption does (Linux)."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            caught = next(line for line in file if line.startswith("SigCgt:"))
    except (OSError, StopIteration) as error:
        pass_on(error)
        return False
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
