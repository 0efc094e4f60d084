"""Lightning: `Trainer(..., callbacks=[StepMarks()])`."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback

from tpuprof.instrument.step import step


class StepMarks(Callback):  # type: ignore[misc]  # lightning's types are not read here
    """Marks each training step with a count. Micro-batches of one update are one step.

    It forces no sync and changes nothing of the training. Validation and checkpoints lie in the step before them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._updates = self._number = -1

    def on_train_batch_start(self, trainer: Any, *_facts: Any, **_more: Any) -> None:
        """A batch begins: it begins a step where an update came since the last one.

        Lightning counts calls of optimizers: with several per batch a number is more than the count of steps.
        """
        updates = int(trainer.global_step)
        if updates != self._updates:
            self._updates = updates
            self._number += 1
            step(self._number)
