"""Which of the ways that steps are heard of counts: a program may use several at once, and each step counts once."""

from __future__ import annotations

from enum import IntEnum


class StepSource(IntEnum):
    """Ways to hear of a step, the surest last: the surest that the program has used so far counts alone."""

    FOUND = 0  # optimizer calls and graph cuts
    ANNOTATION = 1  # JAX's StepTraceAnnotation
    LOOP = 2  # profile().step()
    MARKED = 3  # tpuprof.step


class BestSource:
    """Remembers the surest source. `least` is the least that counts at all."""

    def __init__(self, least: StepSource) -> None:
        self.best = least

    def counts(self, source: StepSource) -> bool:
        """Whether a step of this source is one; a surer source takes over from here on."""
        self.best = max(self.best, source)
        return source is self.best
