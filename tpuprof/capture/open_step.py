"""The step that training is in: its number, when it began, its event on the timeline."""

from __future__ import annotations

import time

from tpuprof.instrument.spans import Span, open_span, resume_spans, split_spans
from tpuprof.own_events import STEP


class OpenStep:
    """One step after the other. `began` is when this one did: time since the epoch, and of the monotonic clock (ns)."""

    def __init__(self) -> None:
        self.number = 0
        # Samples that it trains, where the program states them.
        self.samples: float | None = None
        self.began = self._now()
        self._span: Span | None = None
        # Spans that were open when a step ended: a loader that cuts the graph, say. They go on in the next step.
        self._inner: list[Span] = []

    @staticmethod
    def _now() -> tuple[int, int]:
        return time.time_ns(), time.perf_counter_ns()

    def begin(self) -> None:
        """The step begins now."""
        self.began = self._now()

    def open_event(self, origin: str) -> None:
        """Put the step on the timeline; `origin` says what its boundary is."""
        inner, self._inner = self._inner, []
        self._span = open_span(STEP, "step", _r=1, step_num=self.number, origin=origin)
        resume_spans(inner)

    def close_event(self) -> None:
        """End the step's event, if there is one."""
        self._inner = split_spans(self._span)
        self._span = None
