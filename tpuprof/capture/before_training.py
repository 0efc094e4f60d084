"""Whether a program has not begun to train yet, though it will: what it does until then is no capture of training.

Reinforcement learning plays before its first update, for hundreds of graph cuts, and others evaluate first. Such a
program has made its optimizer, which has not stepped, and no backward pass ran.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tpuprof.instrument.optimizer_steps import OptimizerHook
from tpuprof.instrument.state import pass_on

# What autograd calls its threads, which it makes for the first backward pass of a device's tensors.
_AUTOGRAD = "pt_autograd"
_TASKS = Path("/proc/self/task")
# Time between two looks at the names of threads (s): a look takes a millisecond where there are many.
LOOK_EVERY_SECONDS = 0.25


class BeforeTraining:
    """Asked at the ends of steps, by calling it."""

    def __init__(
        self, optimizers: OptimizerHook, clock: Callable[[], float] = time.monotonic, tasks: Path = _TASKS
    ) -> None:
        self._optimizers, self._clock, self._tasks = optimizers, clock, tasks
        self._trains = False
        self._looked: float | None = None

    def __call__(self) -> bool:
        """Whether an optimizer was made that is still to step. False where that is unknown."""
        if self._trains or self._optimizers.stepped or not optimizer_made():
            return False
        now = self._clock()
        if self._looked is None or now - self._looked >= LOOK_EVERY_SECONDS:
            self._looked, self._trains = now, self._backward_ran()
        return not self._trains

    def _backward_ran(self) -> bool:
        try:
            return any((each / "comm").read_text().startswith(_AUTOGRAD) for each in self._tasks.iterdir())
        except OSError as error:
            # No such folder on this system, or a thread that has just ended.
            pass_on(error)
            return True


def optimizer_made() -> bool:
    """Whether any optimizer of torch.optim, or derived from one, was made: torch marks the classes of those."""
    base: Any = getattr(sys.modules.get("torch.optim.optimizer"), "Optimizer", None)
    return base is not None and any(getattr(each.step, "hooked", False) for each in _derived(base))


def _derived(base: Any) -> list[Any]:
    found: list[Any] = []
    for each in base.__subclasses__():
        found += [each, *_derived(each)]
    return found
