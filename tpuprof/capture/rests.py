"""After the capture, following rests for most of a program's short steps: they are counted, and nothing else is asked.

Following takes about the same time in a step of 1 ms as in one of 100 ms. So a stretch of steps is followed in full,
and then as many are only counted that following takes a small share of the time. A step that is longer than its like
interrupts the rest, and ends it if it compiled. A graph cut that compiled ends it, too.
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

# What following takes of a step, at most (s): 20 to 100 us where the host has the processor for itself, 150 to 250 us
# where the device's threads run on all of its cores (benchmarks/after_capture.py, benchmarks/own_time.py).
FOLLOWING_SECONDS = 250 / US_PER_S
# Share of a program's time that following may take: a third of the percent that nobody notices, as counting steps in a
# rest takes a few microseconds as well.
MOST_SHARE = 0.003
# Steps that are followed before a rest (steps), and how many times as many a rest has at most: compiles that came at a
# read are counted as one at its end.
FOLLOWED, MOST_TIMES = 32, 32
# A step may have compiled that takes so many times as long as those before the rest (ratio), or so much longer (s), if
# that is less: XLA's compiler for CPUs takes 10 ms and more for a graph of one op.
LONGER, LONGER_SECONDS = 3.0, 0.01
# Share of the length from which a step is long, within which the graph cut behind an optimizer's call begins (share):
# what lies between them is a line of the program or two. A judgement.
BEHIND_SHARE = 0.1


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
        # Of the rest: how it counts, after how many steps it ends, the graphs that had compiled before, and the step
        # that interrupted it.
        self._how: tuple[str, int, float] = ("", 0, 0.0)
        self._until, self._graphs, self._interrupted = 0, 0, -1

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
        found = self._after.found
        self._how = event, per_step, took + min((LONGER - 1) * took, LONGER_SECONDS)
        self._until, self._graphs = found.steps + int(times * FOLLOWED), found.graphs
        self._resume()
        self._changed(self)

    def _resume(self) -> None:
        event, per_step, longest = self._how
        self._count.begin(event, per_step, self._until - self._after.found.steps, longest)

    def is_behind(self, event: str, seconds: float) -> bool:
        """Whether steps end with this event, and one ended so recently (s) that what comes now still belongs to it."""
        counted, _, longest = self._how
        return (
            self.on and counted == event and time.monotonic() - self.began - seconds <= BEHIND_SHARE * longest
        )

    def follow(self) -> None:
        """Follow steps again from now on."""
        self.count()
        self._count.stop()
        self._changed(self)
        self._steps = self.cuts = 0
        self._began = time.monotonic()

    def ends_with_step(self) -> None:
        """Follow steps again once the one under way ended."""
        self._until = 0
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
        """A step ended now: the last one of the rest, or a long one, which only interrupts it unless it compiled.

        Two long ones in a row are no exception any more: the rest ends.
        """
        try:
            self.count()
            self._after.look()
            self._after.count_step(now)
            found, before = self._after.found, self._interrupted
            self._interrupted = found.steps
            if found.steps < self._until and found.graphs == self._graphs and before != found.steps - 1:
                self._resume()
            else:
                self.follow()
        except Exception as error:
            note_failure("counting steps", error)
