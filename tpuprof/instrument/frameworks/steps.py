"""Steps that a JAX program marks with `StepTraceAnnotation`: whoever follows steps hears of each as it begins."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tpuprof.instrument.state import note_failure

_undo: list[Callable[[], None]] = []


def watch(begins: Callable[[int | None], None]) -> None:
    """Call `begins(number)` when a StepTraceAnnotation is made, until `stop`."""
    owner = getattr(getattr(sys.modules.get("jax"), "profiler", None), "StepTraceAnnotation", None)
    if owner is None or _undo:
        return
    original = owner.__init__

    def marked(annotation: Any, name: str, **facts: Any) -> None:
        try:
            number = facts.get("step_num")
            begins(number if isinstance(number, int) else None)
        except Exception as error:
            note_failure("following StepTraceAnnotation", error)
        original(annotation, name, **facts)

    owner.__init__ = marked
    _undo.append(lambda: setattr(owner, "__init__", original))


def stop() -> None:
    """Put it back."""
    while _undo:
        _undo.pop()()
