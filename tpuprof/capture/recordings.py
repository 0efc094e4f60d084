"""What is made while a process is recorded: the profile, events around calls, samples of the training thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpuprof.capture.backend import Backend
from tpuprof.capture.contention import Contention
from tpuprof.capture.held_gradients import HeldGradients
from tpuprof.capture.python_tools import python_tools
from tpuprof.capture.recording import Recording
from tpuprof.capture.telemetry import StepRecord, Telemetry
from tpuprof.capture.training_thread import training_thread
from tpuprof.instrument import device_calls, host_events
from tpuprof.instrument.frameworks import jax_calls
from tpuprof.instrument.host_sampler import HostSampler
from tpuprof.instrument.state import STATE
from tpuprof.units import NS_PER_S

# Steps before the capture of which the shortest sets the sampler's interval (steps): the others may have compiled.
RECENT_STEPS = 5


@dataclass
class Recorded:
    """What one recording left: the profile, the telemetry records it covers (from, to), its CPU wait, the time of its
    native threads, how many CPUs it used, its compiles and the graphs that ran (those of torch_xla, from the caches
    or not), the debugging tools that were on, and the gradients that no optimizer uses.
    """

    recording: Recording
    first_record: int
    last_record: int
    profile: Path | None = None
    cpu_wait: float | None = None
    native_seconds: float | None = None
    cpus_used: float | None = None
    compiles: int = 0
    graphs: int = 0
    python_tools: list[str] = field(default_factory=list)
    sampling: dict[str, Any] = field(default_factory=dict)
    gradients: dict[str, Any] = field(default_factory=dict)


class Recordings:
    """The recordings of one process, one after the other. `kept` is the one that counts, once that is known."""

    def __init__(
        self, backend: Backend, extension: Any, telemetry: Telemetry, note: Callable[[str], object]
    ) -> None:
        self.kept: Recorded | None = None
        self.gradients = HeldGradients()
        self._backend = backend
        self._extension = extension
        self._telemetry = telemetry
        self._note = note
        self._all: list[Recorded] = []
        self._contention = Contention()
        self._sampler: HostSampler | None = None

    def start(self, recording: Recording) -> None:
        """Begin one. Where that fails, nothing stays behind."""
        # Before the profiler runs: no recorded step is longer for it.
        self.gradients.begins(by_clock=recording.by_clock)
        try:
            for note in (*host_events.install(), *device_calls.install(), *jax_calls.install()):
                self._note(note)
            self._backend.start()
        except BaseException:
            self.remove_events()
            raise
        recorded = Recorded(recording, len(self._telemetry.records), -1, python_tools=python_tools())
        recorded.compiles = -self._telemetry.compiles_so_far()
        recorded.graphs = -self._telemetry.graphs_run_so_far()
        self._all.append(recorded)
        self._contention.start()
        thread = training_thread() if recording.by_clock else threading.get_ident()
        choose = training_thread if recording.by_clock else None
        self._sampler = HostSampler(self._extension, thread, usual_seconds(self._telemetry.records), choose)
        self._sampler.start()

    def stop(self) -> None:
        """End the newest."""
        recorded = self._all[-1]
        recorded.last_record = len(self._telemetry.records)
        recorded.compiles += self._telemetry.compiles_so_far()
        recorded.graphs += self._telemetry.graphs_run_so_far()
        # Without a step it may hold a part of one. Other frameworks do not count what they run.
        made = recorded.recording
        made.empty = not (made.by_clock or made.steps or recorded.graphs or STATE.framework is not None)
        if self._sampler is not None:
            recorded.sampling = self._sampler.stop()
        recorded.cpu_wait = self._contention.waited_share()
        recorded.native_seconds = self._contention.native_seconds()
        recorded.cpus_used = self._contention.cpus_used()
        try:
            recorded.profile = self._backend.stop()
        finally:
            self.remove_events()
        recorded.gradients = self.gradients.ends()

    def newest_profile(self) -> Path | None:
        """What the newest left, None where there is none."""
        return self._all[-1].profile if self._all else None

    def that(self, recording: Recording | None) -> Recorded | None:
        """What was recorded in a recording, None where there is none."""
        return next(
            (each for each in self._all if recording is not None and each.recording is recording), None
        )

    def remove_events(self) -> None:
        """Put back what was wrapped."""
        jax_calls.remove()
        device_calls.remove()
        host_events.remove()

    def keep(self, kept: Recording | None) -> Path | None:
        """Let one of them count: steps of the others are no captured steps. Its profile, None where there is none."""
        for recorded in self._all:
            if recorded.recording is kept:
                self.kept = recorded
                continue
            for record in self._telemetry.records[recorded.first_record : recorded.last_record]:
                record.captured = False
        if self.kept is not None and self.kept.compiles:
            # It compiles all the time: of what compiled in the recordings before, none was preparation.
            self._telemetry.only_the_first_prepares()
        return self.kept.profile if self.kept is not None else None


def usual_seconds(records: Sequence[StepRecord]) -> float | None:
    """The shortest of the last steps before the recording (s), None before the first."""
    walls = [record.wall_ns for record in records[-RECENT_STEPS:]]
    return min(walls) / NS_PER_S if walls else None
