"""Adds host events to the profiles that others ask a program for, while such a profile is being made.

`tpuprof capture --addr` has no hook in the program. A program that called `tpuprof.start_server` looks at each graph
cut whether the profiler records. From that cut on until the first one after the recording it adds what a capture
from the start adds: graph cuts with their lines, reads, data loading, optimizer calls, and samples of the thread.
"""

from __future__ import annotations

import threading
from typing import Any

from tpuprof.instrument import device_calls, host_events, sync_guard
from tpuprof.instrument.cut_events import CutEvents, optimizer_event
from tpuprof.instrument.host_sampler import HostSampler
from tpuprof.instrument.optimizer_steps import OptimizerHook
from tpuprof.instrument.profiler_on import profiler_on
from tpuprof.instrument.spans import Span, close_span, open_span
from tpuprof.instrument.state import STATE, note_failure
from tpuprof.own_events import STEP


class Attached:
    """Follows the profiler of this process. `recording` tells whether its events are on."""

    def __init__(self, extension: Any) -> None:
        self.recording = False
        self._extension = extension
        self._optimizers = OptimizerHook(self._optimizer_called)
        self._sampler: HostSampler | None = None
        self._cuts = CutEvents()

    def install(self) -> bool:
        """Look at each cut from now on; False where torch_xla does not tell whether the profiler records."""
        if profiler_on(self._extension) is None:
            return False
        sync_guard.install()
        sync_guard.observe(self._before_cut, self._after_cut)
        return True

    def remove(self) -> None:
        """Look no more."""
        sync_guard.stop_observing(self._before_cut, self._after_cut)
        self._optimizers.remove()
        if self.recording:
            self._end()

    def _before_cut(self) -> None:
        self._follow()
        if self.recording:
            self._cuts.begin()

    def _after_cut(self) -> None:
        self._cuts.end()

    def _optimizer_called(self, number: int, name: str) -> None:
        if self.recording:
            optimizer_event(number, name)

    def _follow(self) -> None:
        # While listeners wait for steps, a capture of this process records, and adds all events itself.
        wanted = bool(profiler_on(self._extension)) and not STATE.listeners
        if wanted == self.recording:
            return
        try:
            self._begin() if wanted else self._end()
        except Exception as error:
            note_failure("following the profiler", error)

    def _begin(self) -> None:
        self.recording = True
        self._optimizers.install()
        host_events.install()
        device_calls.install()
        self._sampler = HostSampler(self._extension, threading.get_ident())
        self._sampler.start()

    def _end(self) -> None:
        self.recording = False
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            sampler.stop()
        device_calls.remove()
        host_events.remove()


class MarkedSteps:
    """Puts the steps of `tpuprof.step` on the timeline of TorchTPU and JAX programs, recorded or not.

    An event that nobody records costs next to nothing there.
    """

    _only: MarkedSteps | None = None

    def __init__(self) -> None:
        self._span: Span | None = None
        self._number = -1

    @classmethod
    def follow(cls) -> None:
        """Listen to steps from now on. Doing it twice is harmless."""
        if cls._only is None:
            cls._only = cls()
            STATE.listeners.append(cls._only.marked)

    def marked(self, number: int | None, _samples: float | None = None) -> None:
        """A step begins."""
        close_span(self._span)
        self._number = self._number + 1 if number is None else number
        self._span = open_span(STEP, "step", _r=1, step_num=self._number, origin="user")
