"""Follows the steps of this process while it runs: step marks, optimizer calls, graph cuts, JAX annotations."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tpuprof.capture.boundaries import StepBoundaries
from tpuprof.capture.step_source import BestSource, StepSource
from tpuprof.instrument import sync_guard
from tpuprof.instrument.frameworks.steps import AnnotatedSteps
from tpuprof.instrument.optimizer_steps import OptimizerHook
from tpuprof.instrument.state import STATE

# Called when a step ends: the number of the step that begins, None for the next one, and its samples.
Ended = Callable[[int | None, float | None], None]


class StepFollower:
    """Calls `ended` at each boundary, and `before` and `after` around graph cuts of the thread that trains.

    `after` gets whether the cut was asked to wait for the device.
    """

    def __init__(
        self, extension: Any, ended: Ended, before: Callable[[], None], after: Callable[[bool], None]
    ) -> None:
        self._extension = extension
        self._ended, self._before, self._after = ended, before, after
        self._boundaries = StepBoundaries()
        self._optimizers = OptimizerHook(self._optimizer_called)
        self._annotated = AnnotatedSteps(lambda number: self._marked(number, None, StepSource.ANNOTATION))
        self._source = BestSource(StepSource.FOUND)
        self._graphs = 0
        # Of several threads, the first that calls an optimizer is followed, else the first that cuts a graph.
        self.thread: int | None = None
        self._thread_optimizes = False

    def install(self) -> None:
        """Listen from now on."""
        STATE.listeners.append(self._marked)
        self.watch_framework()

    def watch_framework(self, extension: Any | None = None) -> None:
        """Listen to a framework that is there now. Doing it twice is harmless."""
        self._extension = extension or self._extension
        if self._extension is None:
            return
        if sync_guard.install() and self._before_cut not in sync_guard._before:
            sync_guard.observe(self._before_cut, self._after_cut)
        self._optimizers.install()
        if STATE.framework is not None:
            self._annotated.watch()
        self._graphs = self._graphs_run()

    def remove(self) -> None:
        """Listen no more."""
        if self._marked in STATE.listeners:
            STATE.listeners.remove(self._marked)
        sync_guard.stop_observing(self._before_cut, self._after_cut)
        self._optimizers.remove()
        self._annotated.stop()

    def _graphs_run(self) -> int:
        value = self._extension._xla_counter_value
        return int(value("UncachedCompile") or 0) + int(value("CachedCompile") or 0)

    def _marked(
        self, number: int | None, samples: float | None = None, source: StepSource = StepSource.MARKED
    ) -> None:
        if not self._source.counts(source):
            return
        self.thread = threading.get_ident()
        self._ended(number, samples)

    def _before_cut(self) -> None:
        if self.thread in (None, threading.get_ident()):
            self._before()

    def _after_cut(self) -> None:
        thread = threading.get_ident()
        self.thread = self.thread or thread
        if thread != self.thread:
            return
        self._after(sync_guard.waits())
        if self._source.best is not StepSource.FOUND:
            return
        graphs = self._graphs_run()
        if graphs != self._graphs:
            self._graphs = graphs
            if self._boundaries.cut(gradients=self._optimizers.may_train):
                self._ended(None, None)

    def _optimizer_called(self, number: int, _name: str) -> None:
        thread = threading.get_ident()
        if not self._thread_optimizes:
            self.thread, self._thread_optimizes = thread, True
        found = thread == self.thread and self._source.best is StepSource.FOUND
        if found and self._boundaries.optimizer_called(number):
            self._ended(None, None)
