"""Whether a program has not begun to train yet, though it will: what it does until then is no capture of training.

Reinforcement learning plays before its first update, for hundreds of graph cuts, and others evaluate first. Such a
program has made its optimizer, which has not stepped, and no backward pass ran.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from tpuprof.capture import contention
from tpuprof.instrument.optimizer_steps import OptimizerHook

# Time between two looks at the names of threads (s): a look takes a millisecond where there are many.
LOOK_EVERY_SECONDS = 0.25


class BeforeTraining:
    """Asked at the ends of steps, by calling it."""

    def __init__(self, optimizers: OptimizerHook, clock: Callable[[], float] = time.monotonic) -> None:
        self._optimizers, self._clock = optimizers, clock
        self._trains = False
        self._looked: float | None = None

    def __call__(self) -> bool:
        """Whether an optimizer was made that is still to step. False where that is unknown."""
        if self._trains or self._optimizers.stepped or not optimizer_made():
            return False
        now = self._clock()
        if self._looked is None or now - self._looked >= LOOK_EVERY_SECONDS:
            self._looked, self._trains = now, contention.backward_ran()
        return not self._trains


def optimizer_made() -> bool:
    """Whether any optimizer of torch.optim, or derived from one, was made: torch marks the classes of those."""
    base: Any = getattr(sys.modules.get("torch.optim.optimizer"), "Optimizer", None)
    return base is not None and any(getattr(each.step, "hooked", False) for each in _derived(base))


def _derived(base: Any) -> list[Any]:
    found: list[Any] = []
    for each in base.__subclasses__():
        found += [each, *_derived(each)]
    return found
