"""Steps that a JAX program marks with `StepTraceAnnotation`: whoever follows steps hears of each as it begins."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from tpuprof.instrument.state import note_failure
from tpuprof.instrument.wrapped_calls import Function, Replaced

# XProf takes a root event for a training step if its name begins so.
_TRAINING = "train"


class AnnotatedSteps:
    """Calls `begins(number)` when a StepTraceAnnotation of the training loop is made, from `watch` to `stop`.

    A program may annotate an evaluation too: the name that was seen first counts, until one that begins with "train"
    is seen.
    """

    def __init__(self, begins: Callable[[int | None], None]) -> None:
        self._begins = begins
        self._name: str | None = None
        self._replaced = Replaced()

    def watch(self) -> None:
        """Listen from now on. Doing it twice is harmless."""
        owner = getattr(getattr(sys.modules.get("jax"), "profiler", None), "StepTraceAnnotation", None)
        if owner is not None and not self._replaced:
            self._replaced.replace(owner, "__init__", self._heard)

    def stop(self) -> None:
        """Put it back."""
        self._replaced.put_back()

    def _heard(self, original: Function) -> Function:
        @functools.wraps(original)
        def marked(annotation: Any, *args: Any, **facts: Any) -> None:
            try:
                self._annotated(str(facts.get("name", args[0] if args else "")), facts.get("step_num"))
            except Exception as error:
                note_failure("following StepTraceAnnotation", error)
            original(annotation, *args, **facts)

        return marked

    def _annotated(self, name: str, number: Any) -> None:
        if self._name is None or (name.startswith(_TRAINING) and not self._name.startswith(_TRAINING)):
            self._name = name
        if name == self._name:
            self._begins(number if isinstance(number, int) else None)
