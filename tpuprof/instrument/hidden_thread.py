"""Starts threads of ours that the program does not see.

A program may join every thread that `threading.enumerate()` lists, or wait until `threading.active_count()` is 1. One
of ours among them would keep it waiting. A tracer set by `threading.settrace` does not reach these threads either.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable

# Threads of ours that run now (`get_ident`).
_idents: set[int] = set()


def is_ours(ident: int) -> bool:
    """Whether a thread is one of ours: it does nothing for the program."""
    return ident in _idents


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
        _idents.add(self._ident)
        try:
            self._target()
        finally:
            leave_list()
            _idents.discard(self._ident)
            self._running.release()


def leave_list() -> None:
    """Take the stand-in for this hidden thread off Python's list; called before it waits, and at its end.

    A library that asks for the current thread, as logging does, puts it there. It cannot even be joined.
    """
    listed = getattr(threading, "_active", {})
    if isinstance(listed.get(threading.get_ident()), threading._DummyThread):
        del listed[threading.get_ident()]
