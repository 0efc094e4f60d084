"""Hugging Face `Trainer`: `Trainer(..., callbacks=[StepMarks()])`."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from tpuprof.instrument.step import step


class StepMarks(TrainerCallback):  # type: ignore[misc]  # transformers states no types here
    """Marks each training step with the trainer's own number. Micro-batches of one update are one step.

    It forces no sync and changes nothing of the training. Evaluation and checkpoints lie in the step before them.
    """

    def on_step_begin(self, _arguments: Any, state: Any, *_facts: Any, **_more: Any) -> None:
        """A step begins: `global_step` updates came before it."""
        step(int(state.global_step))
