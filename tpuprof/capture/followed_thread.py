"""Which thread of a process trains: of several, one is followed."""

from __future__ import annotations

import threading


class FollowedThread:
    """The first thread that calls an optimizer, else the first that cuts a graph."""

    def __init__(self) -> None:
        self._thread: int | None = None
        self._optimizes = False

    def may_be_this_one(self) -> bool:
        """Whether this thread is followed, or none is yet."""
        return self._thread in (None, threading.get_ident())

    def cut_a_graph(self) -> bool:
        """Note that this thread cut a graph; whether it is the one that is followed."""
        thread = threading.get_ident()
        self._thread = self._thread or thread
        return thread == self._thread

    def called_an_optimizer(self) -> bool:
        """Note that this thread called an optimizer; whether it is the one that is followed."""
        thread = threading.get_ident()
        if not self._optimizes:
            self._thread, self._optimizes = thread, True
        return thread == self._thread
