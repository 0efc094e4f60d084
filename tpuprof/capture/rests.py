"""After the capture, following rests for most of a program's short steps: they are counted, and nothing else is asked.

Following takes about the same time in a step of 1 ms as in one of 100 ms. So a stretch of steps is followed in full,
and then as many are only counted that following takes a small share of the time. A step that is longer than
its like, and a graph cut that takes as long as a compile does, end the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tpuprof.capture.boundaries import COMPILED, CUT, OPTIMIZER, USER
from tpuprof.instrument import sync_guard
from tpuprof.instrument.state import note_failure
from tpuprof.instrument.step_count import Event, step_count
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

    def __init__(self, after: Aftermath, changed: Callable[[Rest], None]) -> None:
        self._after = after
        # Called as a rest begins, and as it ends.
        self._changed = changed
        self._count = step_count(time.monotonic, self._ended)
        self._events = {event: self._count.of(event) for event in (OPTIMIZER, CUT, COMPILED, USER)}
        # Of the stretch that is followed: its steps, its graph cuts that were looked at, and when it began.
        self._steps, self.cuts, self._began = 0, 0, time.monotonic()

    @property
    def on(self) -> bool:
        """Whether steps are only counted now."""
        return self._count.left > 0

    @property
    def began(self) -> float:
        """When the step under way of a rest began (s); an old time outside of a rest."""
        return self._count.began

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
        if times < 1 or not known:
            self.follow()
            return
        self.count()
        self._count.begin(event, per_step, int(times * FOLLOWED), LONGER * took)
        self._changed(self)

    def follow(self) -> None:
        """Follow steps again from now on."""
        self.count()
        self._count.stop()
        self._changed(self)
        self._steps = self.cuts = 0
        self._began = time.monotonic()

    def ends_with_step(self) -> None:
        """Follow steps again once the one under way ended."""
        self._count.ends_with_step()

    def of(self, event: str) -> Event:
        """Where to report events of this kind: one that passes was counted, and there is nothing more to do."""
        return self._events[event]

    def of_cuts(self, least: float) -> sync_guard.RestOfCuts | None:
        """What a graph cut that takes less than this (s) needs now; None outside of a rest."""
        return sync_guard.RestOfCuts(self._count, self._events[CUT], least) if self.on else None

    def count(self) -> None:
        """Count the steps that ended in the rest so far: what runs in each of them is to be little."""
        for each in self._count.take():
            self._after.count_step(each)

    def _ended(self, now: float) -> None:
        """The rest ends with a step that ended now."""
        try:
            self.count()
            self._after.look()
            self._after.count_step(now)
            self.follow()
        except Exception as error:
            note_failure("counting steps", error)
