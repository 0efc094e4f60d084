"""Decides, step by step, when training is steady, when to start recording and when to stop.

Training is steady once a number of steps in a row compiled nothing: before that a capture would show
warm-up. A run that never gets steady is captured all the same, and the reason is kept: recompiling without
end is just what such a user wants explained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

# Steps in a row without a compile that make training steady. The first step compiles, the second often too
# (new optimizer state, donated buffers), so a single quiet step proves nothing.
STEADY_STEPS = 2
# Steps after which waiting for steadiness ends.
PATIENCE_STEPS = 100


class Phase(Enum):
    """What the capture is doing."""

    WAITING = "waiting"
    CAPTURING = "capturing"
    DONE = "done"


@dataclass(frozen=True)
class Plan:
    """How much to capture: at least `warmup` steps first, then `steps` of them. `patience` in steps."""

    warmup: int = 3
    steps: int = 8
    steady: int = STEADY_STEPS
    patience: int = PATIENCE_STEPS


class Controller:
    """A state machine fed one step boundary at a time. `start` and `stop` do the recording."""

    def __init__(self, plan: Plan, start: Callable[[], None], stop: Callable[[], None]) -> None:
        self.plan = plan
        self.phase = Phase.WAITING
        self.seen = 0
        self.quiet = 0
        self.captured = 0
        self.reason = ""
        self._start = start
        self._stop = stop

    def begin(self) -> None:
        """Start at once where nothing is to be waited for; called before the first step."""
        if self.plan.warmup == 0 and self.plan.steady == 0:
            self._enter_capture()

    def step_ended(self, compiles: int) -> None:
        """One step ended that compiled so many graphs."""
        if self.phase is Phase.WAITING:
            self.seen += 1
            self.quiet = 0 if compiles else self.quiet + 1
            if self._ready():
                self._enter_capture()
        elif self.phase is Phase.CAPTURING:
            self.captured += 1
            if self.captured >= self.plan.steps:
                self.finish()

    def count_anew(self) -> None:
        """The steps recorded so far were only parts of whole ones: record as many again."""
        self.captured = 0

    def finish(self) -> None:
        """Stop recording if it runs; nothing is captured after this."""
        was = self.phase
        self.phase = Phase.DONE
        if was is Phase.CAPTURING:
            self._stop()

    def _ready(self) -> bool:
        if self.seen < self.plan.warmup:
            return False
        if self.quiet >= self.plan.steady:
            return True
        if self.seen >= max(self.plan.patience, self.plan.warmup):
            self.reason = (
                f"training never became steady: after {self.seen} steps it still compiled at least every "
                f"{self.plan.steady} steps, so the capture shows that"
            )
            return True
        return False

    def _enter_capture(self) -> None:
        self.phase = Phase.CAPTURING
        self._start()
