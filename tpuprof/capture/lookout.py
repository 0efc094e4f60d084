"""Tells whether a signal came to this process alone, or to its whole process group.

Ctrl-C, `kill -INT -GROUP` and `timeout` reach the program as well. Handed on, the signal would come twice, and the
second one would break what the program does for the first: save a checkpoint. Nothing that a handler is given tells
which it was, so a process of ours in the same group says which signals it got, too.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# Signals that are handed on to the program.
SIGNALS = (signal.SIGINT, signal.SIGTERM)
# How long the lookout is waited for (s): it sleeps, and wakes up within milliseconds, or within tens of them where
# training has all CPUs. A judgement.
WAIT_SECONDS = 0.5
# How long after one of the group's signals another one counts as the same (s): `timeout` sends its to its child and
# then to its group. A judgement.
SAME_SECONDS = 0.5


class Lookout:
    """What another process of the group says: `pid` is its id, and it writes the number of each signal to `notes`."""

    def __init__(self, pid: int, notes: int) -> None:
        self.pid = pid
        self._notes = notes
        self._seen: dict[int, float] = {}

    def came_to_group(self, number: int) -> bool:
        """Whether the signal that just came to this process came to its group; False where nobody says so in time."""
        until = time.monotonic() + WAIT_SECONDS
        while not self._saw(number):
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._notes], [], [], left)[0] or not self._read():
                return self._saw(number)
        return True

    def _saw(self, number: int) -> bool:
        return time.monotonic() - self._seen.get(number, -SAME_SECONDS) < SAME_SECONDS

    def _read(self) -> bytes:
        noted = os.read(self._notes, 64)
        self._seen.update(dict.fromkeys(noted, time.monotonic()))
        return noted


@contextmanager
def on_the_lookout() -> Iterator[Lookout | None]:
    """Have a process of this group tell which signals it gets; None where none can be started."""
    notes, write = os.pipe()
    alive, ours = os.pipe()
    try:
        pid = os.fork()
    except OSError:  # as many processes as the system allows
        for each in (notes, write, alive, ours):
            os.close(each)
        yield None
        return
    if not pid:
        _look_out(write, alive, others=(notes, ours))
    os.close(write)
    os.close(alive)
    try:
        yield Lookout(pid, notes)
    finally:
        # It ends once nobody holds this end any more, also where this process is killed.
        os.close(ours)
        os.close(notes)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _look_out(write: int, alive: int, others: tuple[int, ...]) -> None:
    """Note each signal until the other process is gone; never returns."""
    try:
        for number in SIGNALS:
            signal.signal(number, lambda number, _frame: os.write(write, bytes([number])) and None)
        for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        for each in (0, 1, 2, *others):
            with suppress(OSError):
                os.close(each)
        os.read(alive, 1)
    finally:
        os._exit(0)
