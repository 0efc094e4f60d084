"""Records a program that marks no steps and calls no optimizer, by the clock.

JAX shows no boundary of a step from outside: steps are found afterwards by the trace's own repetition. So once
programs were compiled and no further compile came for a while, some seconds are recorded. A step that is marked
meanwhile takes over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

# How often the pacer looks (s). It only reads two numbers.
LOOK_EVERY_SECONDS = 0.1
# Time without a compile after which a program counts as warm (s): short, because a program may train for seconds only.
QUIET_SECONDS = 1.0
# Time after the first compile at which it is recorded although it still compiles (s).
PATIENCE_SECONDS = 30.0
# What is recorded (s): several steps of most programs.
RECORD_SECONDS = 2.0


class Paced(Protocol):
    """What the pacer drives."""

    def compiles(self) -> int:
        """Programs compiled since the process began."""

    def marked(self) -> bool:
        """Whether a step was seen, so that nothing needs to be paced."""

    def begin(self) -> None:
        """Start recording."""

    def end(self) -> None:
        """Stop recording, unless steps have taken over."""


class Pacer:
    """A thread that waits for a warm program, has it recorded, and ends."""

    def __init__(self, paced: Paced, clock: Callable[[], float] = time.monotonic) -> None:
        self._paced = paced
        self._clock = clock
        self._halt = threading.Event()
        self._first: float | None = None
        self._last = 0.0
        self._seen = paced.compiles()

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._run, name="tpuprof-pacer", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._halt.set()

    def due(self) -> bool:
        """Whether recording should begin now; called at each look."""
        now, compiles = self._clock(), self._paced.compiles()
        if compiles != self._seen:
            self._seen, self._last = compiles, now
            self._first = self._first if self._first is not None else now
        if self._first is None:
            return False
        return now - self._last >= QUIET_SECONDS or now - self._first >= PATIENCE_SECONDS

    def _run(self) -> None:
        while not self._halt.wait(LOOK_EVERY_SECONDS):
            if self._paced.marked():
                return
            if self.due():
                self._paced.begin()
                self._halt.wait(RECORD_SECONDS)
                self._paced.end()
                return
