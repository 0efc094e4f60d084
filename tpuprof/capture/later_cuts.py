"""Follows graph cuts after the capture, for as little as can be: training pays for each of them until it ends.

What runs once in half a millisecond is not in the processor's caches. Counters that were read at each cut made steps
of 4 ms with eleven cuts a tenth longer. So a cut is timed, and what it ran is asked only where it may end a step or
took as long as a compile does. Where steps are short, most of them are only counted (`rests`).
"""

from __future__ import annotations

from collections.abc import Callable

from tpuprof.capture.aftermath import Aftermath
from tpuprof.capture.boundaries import CUT, OPTIMIZER, USER, StepBoundaries
from tpuprof.capture.followed_thread import FollowedThread
from tpuprof.capture.rests import Rest
from tpuprof.instrument import sync_guard

# A cut that took less compiled nothing (s): XLA's compiler for CPUs takes 10 ms and more for a graph of one op.
COMPILES_FROM_SECONDS = 0.002
# In a rest, a cut is looked at that takes so many times as long as this share of those before it (ratio, share), or so
# much longer (s), if that is less: where the device is busy, a cut waits for the step before, and that may take longer
# than a small compile. Judgements: one cut in ten is looked at without need at most.
LONGER_THAN, OF_SHARE, LONGER_SECONDS = 2.0, 0.9, 0.005
# Steps without a compile after which cuts are no longer looked at before they begin (steps): a judgement.
CLOSELY_FOR_STEPS = 16


class LaterCuts:
    """Tells `after` of graph cuts, and `ran` how many graphs were handed over by the end of one."""

    def __init__(
        self, after: Aftermath, thread: FollowedThread, boundaries: StepBoundaries, ran: Callable[[int], None]
    ) -> None:
        self.after = after
        self.rest = Rest(after, self._changed)
        self._thread = thread
        self._boundaries = boundaries
        self._ran = ran
        self._closely = False
        # How long the cuts took that were followed since the last rest (s).
        self._took: list[float] = []
        # Graphs that compiled so far.
        self._compiled = 0

    def follow(self) -> None:
        """Listen to graph cuts."""
        self.after.counting = lambda: self.rest.began
        self.after.long.start()
        sync_guard.observe_ends(self._ended)

    def stop(self) -> None:
        """Listen no more."""
        self.after.long.stop()
        self.rest.follow()
        sync_guard.stop_observing(self._begins, ended=self._ended)

    def step_ended(self, *, marked: bool) -> None:
        """A step ended: one that the program marks, or one that was found by its events."""
        if marked and self.rest.of(USER).passes():
            return
        self.after.marked = marked
        self.after.step_ended()
        boundaries = self._boundaries
        event, count = (USER, 1) if marked else (boundaries.origin, boundaries.events_per_step)
        self.rest.step_ended(event, 0 if self._closely else count)

    def _changed(self, rest: Rest) -> None:
        """A rest begins, in which short cuts are not reported, or it ends."""
        took, self._took = sorted(self._took), []
        typical = took[int(OF_SHARE * len(took))] if took else 0.0
        longer = min(LONGER_THAN * typical, typical + LONGER_SECONDS)
        sync_guard.rest(rest.of_cuts(max(longer, COMPILES_FROM_SECONDS)))

    def _begins(self) -> None:
        if self._thread.may_be_this_one():
            self.after.before_cut()

    def _ended(self, seconds: float) -> None:
        if self.rest.on:
            self._look_at(seconds)
            self.rest.of(CUT).passes()
            return
        self._took.append(seconds)
        boundaries = self._boundaries
        ends_step = boundaries.pending or boundaries.origin == CUT
        if (seconds < COMPILES_FROM_SECONDS and not ends_step) or not self._thread.cut_a_graph():
            return
        self.rest.cuts += 1
        self._ran(self.after.cut_ended(seconds))
        if self._closely or self._compiled != self.after.found.graphs:
            self._look_closely()

    def _look_at(self, seconds: float) -> None:
        """A cut of a rest took as long as a compile does."""
        if not self._thread.cut_a_graph():
            return
        self.rest.count()
        self.after.cut_ended(seconds)
        if self.rest.is_behind(OPTIMIZER, seconds):
            # The call of the optimizer ended the step, and this is its cut.
            self.after.close_step()
        if self._compiled != self.after.found.graphs:
            self.rest.ends_with_step()

    def _look_closely(self) -> None:
        """Once something compiles, it may do so in reads as well: for a while, cuts are asked as they begin, too."""
        self._compiled = self.after.found.graphs
        closely = self.after.steps_since_compile() <= CLOSELY_FOR_STEPS
        if closely and not self._closely:
            sync_guard.observe(self._begins)
        elif not closely:
            sync_guard.stop_observing(self._begins)
        self._closely = closely
