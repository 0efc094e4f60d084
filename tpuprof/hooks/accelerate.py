"""Accelerate: `mark_steps(accelerator)` after the accelerator was made."""

from __future__ import annotations

import functools
from typing import Any

from tpuprof.instrument.step import step


def mark_steps(accelerator: Any) -> Any:
    """Mark training steps of a loop that uses this accelerator, and return it. Doing it twice is harmless.

    A step ends with the optimizer's call that follows a backward pass with synchronised gradients: micro-batches
    under `accumulate` are one step. Nothing of the loop changes, and no sync is forced.
    """
    if getattr(accelerator, "_tpuprof_steps", None) is not None:
        return accelerator
    marks = accelerator._tpuprof_steps = _Marks()
    original = accelerator.backward

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        marks.backward_begins()
        try:
            return original(*args, **kwargs)
        finally:
            marks.backward_ended(synchronised=bool(accelerator.sync_gradients))

    accelerator.backward = backward
    return accelerator


class _Marks:
    """Counts steps by backward passes: the first after an update belongs to a new step."""

    def __init__(self) -> None:
        self.number = 0
        self._open = False

    def backward_begins(self) -> None:
        """Mark a step where none is open: its boundary lies before the first backward pass."""
        if not self._open:
            self._open = True
            step(self.number)

    def backward_ended(self, *, synchronised: bool) -> None:
        """After synchronised gradients the update follows, so the step is over."""
        if synchronised:
            self._open = False
            self.number += 1
