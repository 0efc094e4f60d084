"""Starts threads of ours that the program does not see.

A program may join every thread that `threading.enumerate()` lists, or wait until `threading.active_count()` is 1. One
of ours among them would keep it waiting. A tracer set by `threading.settrace` does not reach these threads either.
"""

from __future__ import annotations

import _thread
import contextlib
import threading
from collections.abc import Callable


class HiddenThread:
    """A thread that `threading` does not list. Python does not wait for it at its end."""

    def __init__(self, target: Callable[[], None]) -> None:
        self._target = target
        self._running = _thread.allocate_lock()
        self._ident = 0

    def start(self) -> None:
        """Begin. Raises `RuntimeError` where no thread can be started."""
        self._running.acquire()
        try:
            _thread.start_new_thread(self._run, ())
        except BaseException:
            self._running.release()
            raise

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread."""
        return self._ident == threading.get_ident()

    def join(self, timeout: float) -> None:
        """Wait for its end, `timeout` seconds at most."""
        if self._running.acquire(timeout=timeout):
            self._running.release()

    def _run(self) -> None:
        self._ident = threading.get_ident()
        try:
            self._target()
        finally:
            # A library that asked for the current thread has put a stand-in for this one on Python's list.
            with contextlib.suppress(AttributeError):
                threading._active.pop(threading.get_ident(), None)  # type: ignore[attr-defined]
            self._running.release()
