"""After the capture, following rests for most of a program's short steps: they are counted, and nothing else is asked.

Following takes about the same time in a step of 1 ms as in one of 100 ms. So a stretch of steps is followed in full,
and then as many are only counted that following takes a small share of the time. A step that is longer than
its like, and a graph cut that takes as long as a compile does, end the rest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tpuprof.capture.boundaries import CUT
from tpuprof.units import US_PER_S

if TYPE_CHECKING:
    from tpuprof.capture.aftermath import Aftermath

# What following takes of a step, at most (s): benchmarks/after_capture.py measured 20 to 100 us on a CPU host.
FOLLOWING_SECONDS = 100 / US_PER_S
# Share of a program's time that following may take: half of the percent that nobody notices, as counting steps in a
# rest takes a few microseconds as well.
MOST_SHARE = 0.005
# Steps that are followed before a rest (steps), and how many times as many a rest has at most: compiles that came at a
# read are counted as one at its end.
FOLLOWED, MOST_TIMES = 32, 32
# A step so many times as long as those before the rest may have compiled (ratio): compiles take ten times as long as a
# step that gets a rest.
LONGER = 3.0


class Rest:
    """Whether following rests. `event` names what was heard: an optimizer's call, a graph cut, a compiled function."""

    def __init__(self, after: Aftermath, changed: Callable[[str], None]) -> None:
        self._after = after
        # Called with the event that counts as a rest begins, and with none as it ends.
        self._changed = changed
        # Of which event a step has so many, and how many were heard of the step that is under way.
        self._event, self._per_step, self._heard = "", 1, 0
        self._left = 0
        self._thread = 0
        # When steps of the rest ended that are not counted yet, by `time.monotonic` (s).
        self._ends: list[float] = []
        self._step_began = self._long = 0.0
        # Of the stretch that is followed: its steps, its graph cuts that were looked at, and when it began.
        self._steps, self.cuts, self._began = 0, 0, time.monotonic()

    @property
    def on(self) -> bool:
        """Whether steps are only counted now."""
        return self._left > 0

    def step_ended(self, event: str, per_step: int) -> None:
        """A followed step ended; a rest may begin. A step has so many of this event, 0 where that is unknown."""
        self._steps += 1
        if self._steps < FOLLOWED:
            return
        now = time.monotonic()
        took = max((now - self._began) / self._steps, 1 / US_PER_S)
        times = min(FOLLOWING_SECONDS / (MOST_SHARE * took) - 1, MOST_TIMES)
        # Graph cuts with nothing to run end no step, and only counters tell which.
        known = per_step and (event != CUT or self.cuts == self._steps)
        self.follow()
        if times < 1 or not known:
            return
        self._event, self._per_step, self._heard = event, per_step, 0
        self._left, self._thread = int(times * FOLLOWED), threading.get_ident()
        self._step_began, self._long = now, LONGER * took
        self._changed(event)

    def follow(self) -> None:
        """Follow steps again from now on."""
        self.count()
        self._changed("")
        self._left = self._steps = self.cuts = 0
        self._began = time.monotonic()

    def ends_with_step(self) -> None:
        """Follow steps again once the one under way ended."""
        self._left = min(self._left, 1)

    def passes(self, event: str) -> bool:
        """Whether an event is part of a rest: it was counted, and there is nothing more to do."""
        if not self._left:
            return False
        if event == self._event and threading.get_ident() == self._thread:
            self._heard += 1
            if self._heard >= self._per_step:
                now = time.monotonic()
                took, self._step_began, self._heard = now - self._step_began, now, 0
                self._left -= 1
                if took >= self._long or not self._left:
                    self._ended(now)
                else:
                    self._ends.append(now)
        return True

    def count(self) -> None:
        """Count the steps that ended in the rest so far: what runs in each of them is to be little."""
        for each in self._ends:
            self._after.count_step(each)
        self._ends.clear()

    def _ended(self, now: float) -> None:
        """The rest ends with a step that ended now."""
        self.count()
        self._after.look()
        self._after.count_step(now)
        self.follow()
