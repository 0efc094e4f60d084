"""Puts graph cuts and optimizer calls on the host timeline while something is recorded."""

from __future__ import annotations

import threading

from tpuprof.instrument import sync_guard
from tpuprof.instrument.optimizer_steps import gradients_on
from tpuprof.instrument.spans import Span, close_span, open_span
from tpuprof.instrument.stack_frames import user_line
from tpuprof.own_events import GRAPH_CUT, OPTIMIZER_STEP


class CutEvents:
    """One event for each graph cut, from `begin` to `end` in the thread that cuts."""

    def __init__(self) -> None:
        self._open: dict[int, Span | None] = {}

    def begin(self) -> None:
        """A cut begins."""
        self._open[threading.get_ident()] = open_span(
            GRAPH_CUT,
            "graph_cut",
            call="sync",
            source=user_line(),
            grad=int(gradients_on()),
            wait=int(sync_guard.waits()),
        )

    def end(self) -> None:
        """It has ended; nothing is open where recording began meanwhile."""
        close_span(self._open.pop(threading.get_ident(), None))


def optimizer_event(number: int, name: str) -> None:
    """An optimizer made its step: an event without length."""
    close_span(open_span(OPTIMIZER_STEP, "optimizer_step", optimizer=number, kind=name))
