"""What the pacer drives: recordings by the clock, of a process in which no step was seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from tpuprof.capture.controller import Controller, Phase
from tpuprof.instrument.state import STATE
from tpuprof.parallel import on_this_thread

# Graphs that a program of torch_xla runs before it counts as one that shows no step (graphs): a program that shows them
# runs few before its first. A judgement.
GRAPHS_WITHOUT_STEP = 8
# Steps seen from which a program is taken to show them (steps): a single graph cut, of what was made before the loop,
# looks like one. Steps that come later take over from a recording by the clock.
STEPS_SHOW_FROM = 2


class Followed(Protocol):
    """The recorder whose steps take over as soon as there are any."""

    controller: Controller

    def compiles(self) -> int:
        """Programs compiled since the process began."""

    def compiles_under_way(self) -> bool:
        """Whether torch_xla compiles a graph right now."""

    def graphs_run(self) -> int:
        """Graphs that torch_xla ran since the process began."""

    def steps_seen(self) -> int:
        """Steps seen so far."""

    def guarded(self, what: str, action: Callable[[], bool]) -> bool:
        """Do it while no step is turned; False where it fails."""

    def keep_so_far(self) -> None:
        """Write the recording that counts so far. Raises nothing."""


class ByClock:
    """Begins and ends recordings from the pacer's thread; `newest` is the profile of the last. Nothing of it raises."""

    def __init__(self, recorder: Followed, newest: Callable[[], Path | None]) -> None:
        self._recorder = recorder
        self._newest = newest
        # Compiles and graphs when it awoke.
        self._at_first: tuple[int, int] | None = None
        self.hears = STATE.framework is not None and STATE.framework.tells_compiles

    def awake(self) -> bool:
        """Whether it may be that no step will be seen.

        JAX shows none from outside. Programs of torch_xla show them as optimizer calls and graph cuts, unless they cut
        the graph by reads alone.
        """
        if STATE.framework is not None:
            return True
        graphs = self._recorder.graphs_run()
        if graphs >= GRAPHS_WITHOUT_STEP and self._at_first is None:
            self._at_first = self.compiles(), graphs
        return graphs >= GRAPHS_WITHOUT_STEP

    def restless(self) -> bool:
        """Whether most graphs of torch_xla that ran since it awoke compiled: their lines are worth slower tracing."""
        if self._at_first is None:
            return False
        compiled, ran = self.compiles() - self._at_first[0], self._recorder.graphs_run() - self._at_first[1]
        return 0 < ran <= 2 * compiled

    def compiles(self) -> int:
        """Programs compiled since the process began."""
        return self._recorder.compiles()

    def compiling(self) -> bool:
        """Whether a program is being made, as far as the framework tells."""
        if STATE.framework is None:
            return self._recorder.compiles_under_way()
        return bool(STATE.framework.compiling())

    def marked(self) -> bool:
        """Whether steps were seen, or recording is over."""
        return self._recorder.steps_seen() >= STEPS_SHOW_FROM or self._recorder.controller.phase is Phase.DONE

    def begin(self) -> bool:
        """Record; whether that could be done."""
        return self._recorder.guarded("recording by the clock", self._begin)

    def _begin(self) -> bool:
        controller = self._recorder.controller
        if self.marked() or controller.phase is not Phase.WAITING:
            return False
        return controller.record_by_clock(restless=self.restless())

    def end(self) -> bool:
        """End a recording; whether it still ran. Where steps have taken over, theirs goes on."""
        return self._recorder.guarded(
            "ending a recording by the clock", self._recorder.controller.end_by_clock
        )

    def spare(self) -> None:
        """End a recording by the clock that still runs: it counts where no other shows a step."""
        end = partial(self._recorder.controller.end_by_clock, spare=True)
        self._recorder.guarded("ending a recording by the clock", end)

    def drop(self, quiet_seconds: float) -> None:
        """End a recording by the clock that still runs, in which a compile came after so long."""
        end = partial(self._recorder.controller.drop_by_clock, quiet_seconds)
        self._recorder.guarded("dropping a recording by the clock", end)

    def keep(self) -> None:
        """Write what was recorded: the program may be killed before its end."""
        self._recorder.keep_so_far()

    def empty(self) -> bool:
        """Whether the recording that ended shows no step: what is recorded next counts instead."""
        controller = self._recorder.controller
        controller.judging = True
        try:
            empty = not shows_steps(self._newest())
        finally:
            controller.judging = False
        if empty:
            controller.found_empty()
        return empty


def shows_steps(profile: Path | None) -> bool:
    """Whether steps are found in a profile; True where that cannot be said."""
    from tpuprof.model.host_run import read_host_run
    from tpuprof.model.steps.table import StepSource

    try:
        if profile is None:
            return False
        with on_this_thread():
            source = read_host_run("", profile).steps.source
        return source not in (StepSource.WHOLE_CAPTURE, StepSource.NONE)
    except Exception:  # a profile that cannot be read is judged when it is analyzed
        return True
