"""Records one process: arms the instrumentation, follows its steps, captures, writes the run folder."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tpuprof.capture import crumbs, environment, run_folder
from tpuprof.capture.aftermath import Aftermath
from tpuprof.capture.backend import Backend
from tpuprof.capture.boundaries import USER, StepBoundaries
from tpuprof.capture.contention import Contention
from tpuprof.capture.controller import Controller, Phase, Plan, Recording
from tpuprof.capture.fallbacks import FallbackFinder
from tpuprof.capture.ir_debug import COMPARED_STEPS, IrDebug
from tpuprof.capture.pacer import Pacer
from tpuprof.capture.prefetched import Prefetched
from tpuprof.capture.telemetry import Telemetry
from tpuprof.capture.writing import write_run
from tpuprof.instrument import device_calls, host_events, sync_guard
from tpuprof.instrument.frameworks import jax_calls
from tpuprof.instrument.frameworks import steps as jax_steps
from tpuprof.instrument.host_sampler import HostSampler
from tpuprof.instrument.optimizer_steps import OptimizerHook, gradients_on
from tpuprof.instrument.spans import Span, close_span, open_span, resume_spans, split_spans
from tpuprof.instrument.state import STATE, note_failure

# XProf takes a root event for a training step if its name begins with "train".
STEP_EVENT = "train_step"
# Steps before the capture whose median length sets the sampler's interval (steps).
RECENT_STEPS = 5
SLOWER_TRACING = "captured with --source-lines: tracing was slower than usual in the captured steps"
BUSY = "the program's own profiler session was open when a recording was due, so it was put off"
GAVE_WAY = "a recording ended early because the program opened a profiler session of its own"
EARLY_TRACING = (
    "source lines were collected because the captured steps compile: their tracing was slower than usual"
)


@dataclass
class _Recorded:
    """What one recording left: the profile, the telemetry records it covers (from, to), and its CPU wait."""

    recording: Recording
    first_record: int
    last_record: int
    profile: Path | None = None
    cpu_wait: float | None = None
    sampling: dict[str, Any] = field(default_factory=dict)


class Recorder:
    """Follows the steps of this process and records some. Every entry point swallows its own errors.

    Boundaries reach it from `tpuprof.step`, from `profile().step()`, or, with `steps_from_cuts`, from optimizer
    calls and graph cuts; the first two take over as soon as the program uses them.
    """

    def __init__(
        self,
        run: Path,
        plan: Plan,
        backend: Backend,
        extension: Any,
        *,
        name: str | None,
        steps_from_cuts: bool,
        hlo_debug: bool = True,
        source_lines: bool = False,
        report: Callable[[str], None] | None = None,
        progress: Callable[[str, int], None] | None = None,
    ) -> None:
        self.run = run
        self.name = name
        self._ir_debug = IrDebug(extension) if hlo_debug else None
        plan = replace(self._long_enough(plan), early=plan.early and backend.repeats)
        self._prefetched = Prefetched()
        self.controller = Controller(plan, self, used_up=lambda: self._prefetched.used_up, free=self._is_free)
        self.telemetry = Telemetry(extension)
        self._extension = extension
        self.profile: Path | None = None
        self.notes: list[str] = []
        self.overhead_ns = {"waiting": 0, "capturing": 0, "done": 0}
        self._contention = Contention()
        self._sampler: HostSampler | None = None
        self._recorded: list[_Recorded] = []
        self._kept: _Recorded | None = None
        self._backend = backend
        backend.give_way_by(self.give_way)
        self._report = report or (lambda _: None)
        self._progress = progress or (lambda _key, _count: None)
        self._steps = 0
        self._source_lines = source_lines
        self._fallbacks = FallbackFinder()
        self._from_cuts = steps_from_cuts
        self._graphs_run = 0
        self._boundaries = StepBoundaries()
        self._optimizers = OptimizerHook(self._optimizer_called)
        self._after: Aftermath | None = None
        # Of several threads in one process, the first that calls an optimizer is followed, else the first that cuts.
        self._thread: int | None = None
        self._thread_optimizes = False
        self._span: Span | None = None
        # Spans that were open when a step ended: a loader that cuts the graph, say. They go on in the next step.
        self._inner: list[Span] = []
        self._cuts: dict[int, Span | None] = {}
        self._number = 0
        # Samples of the step that is open, where the program states them.
        self._samples: float | None = None
        self._began = (time.time_ns(), time.perf_counter_ns())
        self._compiles = self.telemetry.compiles_so_far()
        self._closed = False
        self._placed = False
        # Steps are turned by the training thread, and recordings by the clock by the pacer's.
        self._lock = threading.RLock()
        self._pacer: Pacer | None = None

    def _long_enough(self, plan: Plan) -> Plan:
        """Wait for enough steady steps to compare some without the user's IR debugging, unless none are waited for."""
        if self._ir_debug is None or not self._ir_debug.was_on or not plan.steady:
            return plan
        return replace(plan, steady=max(plan.steady, COMPARED_STEPS))

    def open(self) -> None:
        """Arm the instrumentation and listen for steps."""
        STATE.armed = True
        STATE.listeners.append(self.marked_step)
        sync_guard.install()
        sync_guard.observe(self._before_cut, self._after_cut)
        self._optimizers.install()
        self._prefetched.install()
        if self._ir_debug:
            self.notes += self._ir_debug.on()
        self._graphs_run = self.telemetry.graphs_run_so_far()
        if STATE.framework is not None and self._from_cuts:
            jax_steps.watch(self.marked_step)
            self._pacer = Pacer(self)
            self._pacer.start()
        self.controller.begin()
        if self.controller.phase is Phase.CAPTURING:
            self._open_step()

    def close(self) -> None:
        """Stop recording if it runs, disarm, and write the run folder. Doing it twice is harmless."""
        if self._closed:
            return
        self._closed = True
        with self._lock:
            self._close()

    def _close(self) -> None:
        try:
            # The step that is open has not ended: recording stops first, so that it is not a step of the capture.
            self.controller.finish()
            self._close_step_event()
            if not self._placed:
                self.done(self.controller.kept())
        except Exception as error:
            note_failure("writing the capture", error)
        finally:
            self._backend.clean_up()
        self._stop_listening()
        if self._after is not None:
            self._after.close()
        self._progress(crumbs.GRAPHS, self.telemetry.graphs_run_so_far())
        self._progress(crumbs.STEPS, self._steps)

    def abandon(self) -> None:
        """In a forked process: forget the recording, which is the parent's, and put everything back."""
        self._closed = self._placed = True
        self.controller.phase = Phase.DONE
        self._remove_events()
        self._disarm()
        self._stop_listening()

    def device_in_use(self) -> bool:
        """Whether this process, or the one it was forked from, has a runtime."""
        return environment.device_in_use()

    def marked_step(self, number: int | None, samples: float | None = None) -> None:
        """A step the program marked itself begins."""
        if self._from_cuts:
            # The program marks its own steps: from here on those count, and graph cuts do not.
            self._from_cuts = False
        self.boundary(number)
        self._samples = samples

    def compiles(self) -> int:
        """Programs compiled since the process began."""
        return self.telemetry.compiles_so_far()

    def compiling(self) -> bool:
        """Whether a compile is under way, as far as the framework tells."""
        return STATE.framework is not None and bool(STATE.framework.compiling())

    def marked(self) -> bool:
        """Whether a step was seen, or recording is over."""
        return self._steps > 0 or self.controller.phase is Phase.DONE

    def begin(self) -> bool:
        """Record by the clock, for want of steps; called by the pacer. Whether that could be done."""
        with self._lock:
            if self.marked() or self.controller.phase is not Phase.WAITING:
                return False
            return self._guarded("recording by the clock", self.controller.record_by_clock)

    def end(self) -> bool:
        """End a recording by the clock; whether it still ran. Where steps have taken over, theirs goes on."""
        with self._lock:
            return self._guarded("ending a recording by the clock", self.controller.end_by_clock)

    def give_way(self) -> None:
        """The program is about to use the profiler itself: end what is recorded; called in the program's thread."""
        with self._lock:
            if self._guarded("giving way to the program's profiler", self.controller.give_way):
                self._note_once(GAVE_WAY)

    def _is_free(self) -> bool:
        """Whether the program leaves the profiler to us."""
        if not self._backend.busy():
            return True
        if self._note_once(BUSY):
            self._progress(crumbs.BUSY, self._steps)
        return False

    def _note_once(self, note: str) -> bool:
        new = note not in self.notes
        if new:
            self.notes.append(note)
        return new

    def _guarded(self, what: str, action: Callable[[], bool]) -> bool:
        """Do it; where it fails, nothing more is recorded, and training goes on."""
        try:
            return action()
        except Exception as error:
            self._failed(what, error)
            return False

    def _failed(self, what: str, error: Exception) -> None:
        note_failure(what, error)
        try:
            self.controller.give_up()
        except Exception as another:
            note_failure("ending the recording", another)

    def boundary(self, number: int | None = None) -> None:
        """One step ends and the next, `number`, begins."""
        if self._after is not None:
            self._after.step_ended()
        if self.controller.phase is Phase.DONE:
            return
        with self._lock:
            self._boundary(number)

    def _boundary(self, number: int | None) -> None:
        entered = time.perf_counter_ns()
        phase = self.controller.phase.value
        try:
            self._turn(number)
        except Exception as error:
            self._failed("following the steps", error)
        self.overhead_ns[phase] += time.perf_counter_ns() - entered

    def _turn(self, number: int | None) -> None:
        capturing = self.controller.phase is Phase.CAPTURING
        self._count_step()
        # Our own work counts into the step that ends, under its own name, so that steps lie end to end.
        own = open_span("tpuprof.overhead", "overhead") if capturing else None
        wall_ns = time.perf_counter_ns() - self._began[1]
        record = self.telemetry.end_step(self._number, self._began[0], wall_ns, captured=capturing)
        record.samples = self._samples
        compiles = self.telemetry.compiles_so_far()
        close_span(own)
        self._close_step_event()
        if not capturing:
            self._fallbacks.step_ended(record.counters)
            record.fallbacks = dict(self._fallbacks.sources)
        self._prefetched.step_ended()
        self.controller.step_ended(compiles - self._compiles)
        self._compiles = compiles
        self._number = number if number is not None else self._number + 1
        if self._ir_debug and self.controller.phase is Phase.WAITING:
            self._ir_debug.compare(self._number, self.controller.quiet)
        self._began = (time.time_ns(), time.perf_counter_ns())
        if self.controller.phase is Phase.CAPTURING:
            self._open_step()

    def _count_step(self) -> None:
        """Say how far training came: at the first step, and whenever the number of steps has doubled."""
        self._steps += 1
        if self._steps & (self._steps - 1) == 0:
            self._progress(crumbs.STEPS, self._steps)

    def _before_cut(self) -> None:
        thread = threading.get_ident()
        followed = self._thread in (None, thread)
        if followed and self._after is not None:
            self._after.before_cut()
        elif followed:
            self.telemetry.before_cut()
        if self.controller.phase is Phase.CAPTURING:
            line, grad = host_events.user_line(), int(gradients_on())
            self._cuts[thread] = open_span(
                "tpuprof.graph_cut",
                "graph_cut",
                call="sync",
                source=line,
                grad=grad,
                wait=int(sync_guard.waits()),
            )

    def _after_cut(self) -> None:
        thread = threading.get_ident()
        close_span(self._cuts.pop(thread, None))
        self._thread = self._thread or thread
        if thread != self._thread:
            return
        (self._after or self.telemetry).after_cut()
        if not self._from_cuts:
            return
        graphs = self.telemetry.graphs_run_so_far()
        if graphs != self._graphs_run:
            self._graphs_run = graphs
            if self._boundaries.cut(gradients=gradients_on()):
                self.boundary()

    def _optimizer_called(self, number: int, name: str) -> None:
        """An optimizer made its step in this thread."""
        thread = threading.get_ident()
        if not self._thread_optimizes:
            self._thread, self._thread_optimizes = thread, True
        if thread != self._thread:
            return
        capturing = self.controller.phase is Phase.CAPTURING
        if capturing:
            close_span(open_span("tpuprof.optimizer_step", "optimizer_step", optimizer=number, kind=name))
        if not self._from_cuts:
            return
        ends = self._boundaries.optimizer_called(number)
        if self._boundaries.first and self._backend.repeats:
            # What ended at graph cuts before it was no training step.
            self._close_step_event()
            self.controller.begin_anew()
        elif (self._boundaries.grew or self._boundaries.first) and capturing:
            # What was counted as steps were parts of one: record as many whole ones.
            self.controller.count_anew()
        if ends:
            self.boundary()

    def _open_step(self) -> None:
        self.telemetry.begin_captured_step()
        origin = self._boundaries.origin if self._from_cuts else USER
        inner, self._inner = self._inner, []
        self._span = open_span(STEP_EVENT, "step", _r=1, step_num=self._number, origin=origin)
        resume_spans(inner)

    def _close_step_event(self) -> None:
        self._inner = split_spans(self._span)
        self._span = None

    def start(self, recording: Recording) -> None:
        """Begin a recording; called by the controller."""
        self._fallbacks.stop()
        if self._ir_debug:
            # Steps that compile are captured for their compiles: those are explained by source lines.
            self._ir_debug.captures(
                source_lines=self._source_lines or (recording.early and not recording.prefetched)
            )
        try:
            self._begin_recording(recording)
        except BaseException:
            self._remove_events()
            raise

    def _begin_recording(self, recording: Recording) -> None:
        for note in (*host_events.install(), *device_calls.install(), *jax_calls.install()):
            self._note_once(note)
        steady = "not yet steady" if recording.early else "steady"
        if recording.by_clock:
            self._report("no step was seen so far; recording by the clock")
        else:
            self._report(
                f"training is {steady} after {recording.after} steps; capturing {self.controller.plan.steps}"
            )
        self._backend.start()
        self._recorded.append(_Recorded(recording, len(self.telemetry.records), -1))
        self._contention.start()
        thread = threading.main_thread().ident if recording.by_clock else None
        self._sampler = HostSampler(
            self._extension, thread or threading.get_ident(), self._usual_step_seconds()
        )
        self._sampler.start()

    def _usual_step_seconds(self) -> float | None:
        """The median of the last steps before the capture (s), None before the first."""
        walls = [record.wall_ns for record in self.telemetry.records[-RECENT_STEPS:]]
        return statistics.median(walls) / 1e9 if walls else None

    def stop(self, recording: Recording) -> None:
        """End a recording; called by the controller."""
        recorded = self._recorded[-1]
        recorded.last_record = len(self.telemetry.records)
        if self._sampler is not None:
            recorded.sampling = self._sampler.stop()
        recorded.cpu_wait = self._contention.waited_share()
        try:
            recorded.profile = self._backend.stop()
        finally:
            self._remove_events()
            if self._ir_debug:
                self._ir_debug.waits()
        self._report("recorded by the clock" if recording.by_clock else f"captured {recording.steps} steps")
        self._progress(crumbs.CAPTURED, recording.steps)

    def _remove_events(self) -> None:
        jax_calls.remove()
        device_calls.remove()
        host_events.remove()

    def done(self, kept: Recording | None) -> None:
        """Disarm and write the run folder; called by the controller."""
        self.controller.phase = Phase.DONE
        self._disarm()
        for recorded in self._recorded:
            if recorded.recording is kept:
                self._kept, self.profile = recorded, recorded.profile
            else:
                for record in self.telemetry.records[recorded.first_record : recorded.last_record]:
                    record.captured = False
        if self._placed:
            return
        if self.controller.reason:
            self.notes.append(self.controller.reason)
        if self._source_lines:
            self.notes.append(SLOWER_TRACING)
        elif kept is not None and kept.early and not kept.prefetched and self._ir_debug:
            self.notes.append(EARLY_TRACING)
        self._write()

    def _disarm(self) -> None:
        STATE.armed = False
        self._prefetched.remove()
        self._fallbacks.stop()
        if self._ir_debug:
            self._ir_debug.restore()

    def _stop_listening(self) -> None:
        if self.marked_step in STATE.listeners:
            STATE.listeners.remove(self.marked_step)
        sync_guard.stop_observing(self._before_cut, self._after_cut)
        self._optimizers.remove()
        jax_steps.stop()
        if self._pacer is not None:
            self._pacer.stop()
        if STATE.framework is not None and self._closed:
            STATE.framework.remove()

    def _count_on(self, label: str) -> None:
        """Count steps and compiles until the program ends: what the capture saw may come again or not."""

        def write(found: dict[str, Any]) -> None:
            run_folder.write_after(self.run, label, found)

        self._after = Aftermath(self._extension, write)

    def _write(self) -> None:
        self._placed = True
        if self.profile is not None:
            # Without a profile there is nothing to describe, and the folder may hold an older capture.
            name = self.name or run_folder.session_name()
            facts = self._capture_facts(name)
            label = write_run(self.run, name, self.profile, self.telemetry, facts, self.notes)
            if not self._closed:
                self._count_on(label)
        self._backend.clean_up()

    def _capture_facts(self, name: str) -> dict[str, Any]:
        plan, controller = self.controller.plan, self.controller
        return {
            "name": name,
            "warmup": plan.warmup,
            # A recording by the clock has no steps of its own: the trace is asked for them.
            "steps_wanted": None if controller.by_clock else plan.steps,
            "steps_captured": None if controller.by_clock else controller.captured,
            "steps_before": self._kept.recording.after if self._kept else controller.seen,
            "steady": not controller.reason,
            "backend": type(self._backend).__name__,
            "hlo_debug": self._ir_debug is not None,
            "cpu_wait_share": self._kept.cpu_wait if self._kept else None,
            "host_samples": self._kept.sampling if self._kept else {},
            "source_lines": self._source_lines,
            "ir_debug_by_user": self._ir_debug.was_on if self._ir_debug else None,
            "ir_debug_off_in_steps": self._ir_debug.off_in if self._ir_debug else [],
            "overhead_seconds": {phase: ns / 1e9 for phase, ns in self.overhead_ns.items()},
        }
