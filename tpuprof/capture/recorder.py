"""Records one process: arms the instrumentation, follows its steps, captures, writes the run folder."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tpuprof.capture import crumbs, run_writer
from tpuprof.capture.aftermath import Aftermath
from tpuprof.capture.backend import Backend
from tpuprof.capture.before_training import BeforeTraining
from tpuprof.capture.boundaries import COMPILED, OPTIMIZER, USER, StepBoundaries
from tpuprof.capture.by_clock import ByClock
from tpuprof.capture.controller import Controller, Phase
from tpuprof.capture.dynamo import NewGraphs
from tpuprof.capture.fallbacks import FallbackFinder
from tpuprof.capture.followed_thread import FollowedThread
from tpuprof.capture.interim import Interim
from tpuprof.capture.ir_debug import IrDebug, notes_on_tracing
from tpuprof.capture.later_cuts import LaterCuts
from tpuprof.capture.open_step import OpenStep
from tpuprof.capture.pacer import Pacer
from tpuprof.capture.prefetched import Prefetched
from tpuprof.capture.profiler_session import ProfilerTakenError
from tpuprof.capture.recording import Plan, Recording
from tpuprof.capture.recordings import Recorded, Recordings
from tpuprof.capture.step_source import BestSource, StepSource
from tpuprof.capture.telemetry import Telemetry
from tpuprof.capture.terminate import end_after_writing
from tpuprof.capture.together import Together
from tpuprof.capture.told import Told
from tpuprof.capture.writing import capture_facts, write_run
from tpuprof.instrument import sync_guard
from tpuprof.instrument.compiled_calls import CompiledCalls
from tpuprof.instrument.cut_events import CutEvents, optimizer_event
from tpuprof.instrument.frameworks.steps import AnnotatedSteps
from tpuprof.instrument.library_calls import LibraryCalls
from tpuprof.instrument.optimizer_steps import OptimizerHook
from tpuprof.instrument.spans import close_span, open_span
from tpuprof.instrument.state import STATE, note_failure
from tpuprof.instrument.untraced import untraced
from tpuprof.own_events import OVERHEAD
from tpuprof.units import MS_PER_S, format_ms

BUSY = "the program's own profiler session was open when a recording was due, so it was put off"
# Recordings that are begun again because steps turned out to be parts of longer ones (count): each costs the program a
# moment to write, and calls in no order would do so without end.
MAX_GROWN = 2
GAVE_WAY = "a recording ended early because the program opened a profiler session of its own"


class Recorder:
    """Follows the steps of this process and records some. Every entry point swallows its own errors.

    Boundaries reach it from `tpuprof.step`, from `profile().step()`, or, with `steps_from_cuts`, from optimizer
    calls and graph cuts; the first two take over as soon as the program uses them.
    """

    # Long because it declares all state of a recording, with what each field is for.
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
        together: Together | None = None,
        report: Callable[[str], None] | None = None,
        progress: Callable[[str, object], None] | None = None,
        listed_as: str = "",
        launched: Sequence[str] = (),
    ) -> None:
        self.run, self._launched = run, launched
        self._listed_as = listed_as
        self.name = name
        # TorchTPU and JAX have no such switch.
        self._ir_debug = IrDebug(extension) if hlo_debug and STATE.framework is None else None
        steady = self._ir_debug.steady_steps(plan.steady) if self._ir_debug else plan.steady
        plan = replace(plan, steady=steady, early=plan.early and backend.repeats)
        self._prefetched = Prefetched()
        self._optimizers = OptimizerHook(self._optimizer_called)
        self._together = together
        self.telemetry = Telemetry(extension)
        self.controller = Controller(
            plan,
            self,
            used_up=lambda: self._prefetched.used_up,
            free=self._is_free,
            compiles=self.compiles,
            burst=lambda: self._prefetched.burst,
            before_training=partial(self._is_before, BeforeTraining(self._optimizers)),
        )
        self._extension = extension
        self.profile: Path | None = None
        self.notes: list[str] = []
        self.overhead_ns = {"waiting": 0, "capturing": 0, "done": 0}
        self._recordings = Recordings(backend, extension, self.telemetry, self._note_once)
        self._interim = Interim(run, self.telemetry, listed_as)
        self._backend = backend
        backend.give_way_by(self.give_way)
        self._report = report or (lambda _: None)
        self._told = Told(self._report)
        self._progress = progress or (lambda _key, _count: None)
        self._steps = 0
        self._source_lines = source_lines
        self._fallbacks = FallbackFinder()
        self._source = BestSource(StepSource.FOUND if steps_from_cuts else StepSource.ANNOTATION)
        self._graphs_run = self._grown = 0
        self._boundaries = StepBoundaries()
        self._compiled_calls = CompiledCalls(self._compiled_call_ran)
        self._annotated = AnnotatedSteps(lambda number: self.boundary(number, StepSource.ANNOTATION))
        self._later: LaterCuts | None = None
        self._thread = FollowedThread()
        self._cuts = CutEvents()
        self._library_calls = LibraryCalls()
        self._step = OpenStep()
        self._compiles = self.telemetry.compiles_so_far()
        self._new_graphs = NewGraphs()
        self._closed = self._placed = False
        # Steps are turned by the training thread, and recordings by the clock by the pacer's.
        self._lock = threading.RLock()
        self._pacer: Pacer | None = None

    def open(self) -> None:
        """Arm the instrumentation and listen for steps."""
        STATE.armed = True
        STATE.listeners.append(self.marked_step)
        sync_guard.install()
        sync_guard.observe(self._before_cut, self._after_cut)
        self._optimizers.install()
        if self._source.best is StepSource.FOUND:
            self._compiled_calls.install()
        self._prefetched.install()
        if self._ir_debug:
            self.notes += self._ir_debug.on()
        self._graphs_run = self.telemetry.graphs_run_so_far()
        if STATE.framework is not None:
            STATE.framework.install()
            self._annotated.watch()
        self._pace()
        self.controller.begin()
        if self.controller.phase is Phase.CAPTURING:
            self._open_step()

    def _pace(self) -> None:
        """Record by the clock where no step is seen."""
        if self._source.best is not StepSource.FOUND or not self._backend.repeats:
            return
        self._pacer = Pacer(ByClock(self, self._recordings.newest_profile))
        if STATE.framework is not None:
            STATE.framework.when_compiled.append(self._pacer.compiled)
        self._pacer.start()

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
            self._step.close_event()
            if not self._placed:
                self.done(self.controller.kept())
        except Exception as error:
            note_failure("writing the capture", error)
        finally:
            self._stop_listening()
            self._backend.clean_up()
        if self._later is not None:
            self._later.after.close()
        self._progress(crumbs.GRAPHS, self.telemetry.graphs_run_so_far())
        self._progress(crumbs.COMPILED_CALLS, self.telemetry.compiled_calls_so_far())
        self._progress(crumbs.STEPS, self._steps)

    def abandon(self) -> None:
        """In a forked process: forget the recording, which is the parent's, and put everything back."""
        self._closed = self._placed = True
        self.controller.phase = Phase.DONE
        self._backend.forget()
        self._recordings.remove_events()
        self._disarm()
        self._stop_listening()

    def discard(self) -> None:
        """End the recording, and keep nothing."""
        self._placed = True
        self.close()

    def marked_step(self, number: int | None, samples: float | None = None) -> None:
        """A step that the program marked by `tpuprof.step` begins."""
        self.boundary(number, StepSource.MARKED)
        self._step.samples = samples

    def compiles(self) -> int:
        """Programs compiled since the process began."""
        return self.telemetry.compiles_so_far()

    def compiles_under_way(self) -> bool:
        """Whether torch_xla compiles a graph right now."""
        return self.telemetry.compiles_under_way()

    def graphs_run(self) -> int:
        """Graphs that torch_xla ran since the process began."""
        return self.telemetry.graphs_run_so_far()

    def steps_seen(self) -> int:
        """Steps seen so far."""
        return self._steps

    def give_way(self) -> None:
        """The program is about to use the profiler itself: end what is recorded; called in the program's thread."""
        if self.guarded("giving way to the program's profiler", self.controller.give_way):
            self._note_once(GAVE_WAY)

    def _is_free(self) -> bool:
        """Whether the program leaves the profiler to us, and training has come to the step that the hosts agreed on."""
        if self._backend.busy():
            if self._note_once(BUSY):
                self._progress(crumbs.BUSY, self._steps)
            return False
        return self._together is None or self._together.may_start(self.controller.seen, self._tell)

    def _is_before(self, training: BeforeTraining) -> bool:
        """Whether training is still to come; steps that the program marks are what it wants to see."""
        return self._source.best is StepSource.FOUND and training()

    def _tell(self, note: str) -> None:
        if self._note_once(note):
            self._report(note)

    def _note_once(self, note: str) -> bool:
        new = note not in self.notes
        if new:
            self.notes.append(note)
        return new

    def guarded(self, what: str, action: Callable[[], bool]) -> bool:
        """Do it while no step is turned; where it fails, nothing more is recorded, and training goes on."""
        with self._lock:
            try:
                return action()
            except Exception as error:
                self._failed(what, error)
                return False

    def _failed(self, what: str, error: Exception) -> None:
        try:
            self.controller.give_up()
        except Exception as another:
            note_failure("ending the recording", another)
        note_failure(what, error)
        self._progress(crumbs.BROKE_OFF, f"{what}: {type(error).__name__}: {error}")

    def boundary(self, number: int | None = None, source: StepSource = StepSource.LOOP) -> None:
        """One step ends and the next, `number`, begins, if none surer than `source` marks them."""
        if not self._source.counts(source):
            return
        if self._later is not None:
            self._later.step_ended(marked=source is not StepSource.FOUND)
        if self.controller.phase is Phase.DONE:
            if self._fallbacks.watches:
                # Recording by the clock ends on a thread of its own, which cannot take a mode off this one.
                self._fallbacks.stop()
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

    def _settled(self) -> bool:
        """Whether a step that compiled nothing is a quiet one; asked only while that counts."""
        if not self.controller.waits_for_quiet:
            return True
        framework = STATE.framework
        return not self._new_graphs.came() and (framework is None or bool(framework.settled()))

    def _turn(self, number: int | None) -> None:
        self._library_calls.stop()
        capturing = self.controller.phase is Phase.CAPTURING
        self._count_step()
        # Our own work counts into the step that ends, under its own name, so that steps lie end to end.
        own = open_span(OVERHEAD, "overhead") if capturing else None
        step = self._step
        wall_ns = time.perf_counter_ns() - step.began[1]
        record = self.telemetry.end_step(step.number, step.began[0], wall_ns, captured=capturing)
        record.samples = step.samples
        compiles = self.telemetry.compiles_so_far()
        # Reads what each thread does, which takes about a millisecond: our own work, too.
        settled = self._settled()
        close_span(own)
        self._step.close_event()
        if not capturing or self.controller.records_by_clock:
            self._fallbacks.step_ended(record.counters)
            record.fallbacks = dict(self._fallbacks.sources)
            record.fallbacks_inside = dict(self._fallbacks.inside)
            record.fallbacks_also = {op: list(lines) for op, lines in self._fallbacks.also.items() if lines}
            record.gradients = sorted(self._fallbacks.gradients)
        self._prefetched.step_ended(compiling=compiles > self._compiles or not settled)
        self.controller.step_ended(compiles - self._compiles, settled=settled)
        self._compiles = compiles
        step.number = number if number is not None else step.number + 1
        self._set_lines()
        step.begin()
        if self.controller.phase is Phase.CAPTURING:
            self._open_step()
        elif STATE.framework is not None and STATE.framework.logs_lines:
            self._library_calls.start()

    def _set_lines(self) -> None:
        """Turn torch_xla's collecting of source lines on or off for the step that begins."""
        phase = self.controller.phase
        if self._ir_debug and phase is Phase.WAITING:
            self._ir_debug.before_step(self._step.number, self.controller.quiet)
        elif self._ir_debug and phase is Phase.CAPTURING:
            self._ir_debug.captures(source_lines=self._source_lines or self.controller.wants_lines)

    def _count_step(self) -> None:
        """Say how far training came: at the first step, and whenever the number of steps has doubled."""
        self._steps += 1
        if self._steps & (self._steps - 1) == 0:
            self._progress(crumbs.STEPS, self._steps)

    def _before_cut(self) -> None:
        if self._thread.may_be_this_one():
            self.telemetry.before_cut()
        if self.controller.phase is Phase.CAPTURING:
            self._cuts.begin()

    def _after_cut(self) -> None:
        self._cuts.end()
        if not self._thread.cut_a_graph():
            return
        self.telemetry.after_cut()
        self._cut_ran(self.telemetry.graphs_run_so_far())

    def _cut_ran(self, graphs: int) -> None:
        """So many graphs were handed over by the end of a cut in the thread that trains."""
        if self._source.best is not StepSource.FOUND:
            return
        if graphs != self._graphs_run:
            self._graphs_run = graphs
            self._heard(ends=self._boundaries.cut(gradients=self._optimizers.may_train))

    def _compiled_call_ran(self, graph: bytes) -> None:
        """A function of torch.compile ran a graph in this thread."""
        if self._later is not None and self._later.rest.of(COMPILED).passes():
            return
        if self._source.best is not StepSource.FOUND or not self._thread.cut_a_graph():
            return
        self._heard(ends=self._boundaries.compiled_call(graph))

    def _heard(self, *, ends: bool) -> None:
        """Follow what was heard, which may end a step; what was counted before may have been none, or parts of one."""
        boundaries = self._boundaries
        if boundaries.first and not self.controller.plan.steps:
            # Steps are only timed: those that were none are left out of their mean.
            self.telemetry.forget_steps()
        if self._counted_no_steps():
            self._step.close_event()
            self.controller.begin_anew()
        elif (boundaries.grew or boundaries.first) and self.controller.phase is Phase.CAPTURING:
            # What was counted as steps were parts of one: record as many whole ones.
            self.controller.count_anew()
        if ends:
            self.boundary(source=StepSource.FOUND)

    def _counted_no_steps(self) -> bool:
        """Whether to wait for steps again: what ended before was no training, or what makes steps whole may compile.

        Hosts of a pod agreed on the step at which they began, so there only steps are counted again.
        """
        if self._boundaries.first:
            return self._backend.repeats
        capturing = self.controller.phase is Phase.CAPTURING
        if not self._boundaries.grew or not capturing or not self.controller.plan.early:
            return False
        self._grown += 1
        return self._grown <= MAX_GROWN

    def _optimizer_called(self, number: int, name: str) -> None:
        """An optimizer made its step in this thread."""
        self._recordings.gradients.stepped(number)
        if not self._thread.called_an_optimizer():
            return
        capturing = self.controller.phase is Phase.CAPTURING
        if capturing:
            optimizer_event(number, name)
        if self._source.best is not StepSource.FOUND:
            return
        self._heard(ends=self._boundaries.optimizer_called(number))

    def _open_step(self) -> None:
        self.telemetry.begin_captured_step()
        origin = self._boundaries.origin if self._source.best is StepSource.FOUND else USER
        self._step.open_event(origin)

    def start(self, recording: Recording) -> None:
        """Begin a recording; called by the controller."""
        self._fallbacks.stop()
        if self._ir_debug:
            # Steps that compile are captured for their compiles: those are explained by source lines.
            self._ir_debug.captures(source_lines=self._source_lines or recording.wants_lines)
        self._told.begins(recording, self.controller.plan)
        if recording.by_clock:
            self.telemetry.end_preparation(*self._step.began)
        began = time.perf_counter()
        try:
            self._recordings.start(recording)
        except ProfilerTakenError:
            if self._ir_debug:
                self._ir_debug.waits()
            self._told.put_off()
            self._note_once(BUSY)
            raise
        recording.profiler_seconds += time.perf_counter() - began
        self._progress(crumbs.RECORDING, 1)

    def stop(self, recording: Recording) -> None:
        """End a recording; called by the controller."""
        began = time.perf_counter()
        try:
            # Between the end of the profiler and the note where its file is, what was recorded is nobody's.
            with end_after_writing():
                self._recordings.stop()
        finally:
            recording.profiler_seconds += time.perf_counter() - began
            if self._ir_debug:
                self._ir_debug.waits()
        self._progress(crumbs.RECORDING, 0)
        self._told.ended(recording)
        if not (recording.empty or recording.dropped):
            self._progress(crumbs.CAPTURED, recording.steps)

    def done(self, kept: Recording | None) -> None:
        """Disarm and write the run folder; called by the controller."""
        self.controller.phase = Phase.DONE
        self._disarm()
        self.profile = self._recordings.keep(kept)
        if self._placed:
            return
        self._told.counts(kept)
        self.notes += [self.controller.reason] if self.controller.reason else []
        if self._ir_debug:
            self.notes += notes_on_tracing(kept, source_lines=self._source_lines)
        began = time.perf_counter()
        with end_after_writing():
            untraced(self._write)
        if self.profile is not None:
            self._report(f"writing the capture took {format_ms((time.perf_counter() - began) * MS_PER_S)}")

    def keep_so_far(self) -> None:
        """Write the recording by the clock that counts so far; called by the pacer when it is done."""
        with self._lock:
            try:
                kept = self._recordings.that(self.controller.kept())
                if kept is None or kept.profile is None or self._placed or not kept.recording.by_clock:
                    return
                self._told.counts(kept.recording)
                self.name = self.name or run_writer.session_name()
                facts = self._facts(self.name, kept)
                label = self._interim.write(self.name, kept.profile, facts, self.notes)
                self._progress(crumbs.WRITTEN, label)
            except Exception as error:
                note_failure("keeping a recording", error)

    def _facts(self, name: str, kept: Recorded | None) -> dict[str, Any]:
        return capture_facts(
            name,
            self.controller,
            kept,
            backend=type(self._backend).__name__,
            ir_debug=self._ir_debug,
            source_lines=self._source_lines or (kept is not None and kept.recording.has_lines),
            overhead_ns=self.overhead_ns,
            launched=self._launched,
            later_looks=self._interim.looks.noted() if self.controller.by_clock else {},
        )

    def _disarm(self) -> None:
        STATE.armed = False
        self._library_calls.stop()
        self._prefetched.remove()
        self._fallbacks.stop()
        if self._ir_debug:
            self._ir_debug.restore()

    def _stop_listening(self) -> None:
        if self.marked_step in STATE.listeners:
            STATE.listeners.remove(self.marked_step)
        sync_guard.stop_observing(self._before_cut, self._after_cut)
        if self._later is not None:
            self._later.stop()
        self._optimizers.remove()
        self._compiled_calls.remove()
        self._annotated.stop()
        if self._pacer is not None:
            if STATE.framework is not None and self._pacer.compiled in STATE.framework.when_compiled:
                STATE.framework.when_compiled.remove(self._pacer.compiled)
            self._pacer.stop()
        self._interim.looks.stop()
        if self._together is not None:
            self._together.stop()
        if STATE.framework is not None and self._closed:
            STATE.framework.remove()

    def _write(self) -> None:
        self._placed = True
        self._interim.remove()
        if not self.controller.plan.steps:
            run_writer.write_telemetry(self.run, f"timed-{os.getpid()}", 0, self.telemetry.records)
        if self.profile is not None:
            # Without a profile there is nothing to describe, and the folder may hold an older capture.
            name = self.name or run_writer.session_name()
            facts = self._facts(name, self._recordings.kept)
            calls = self._library_calls.rows()
            label = write_run(
                self.run, name, self.profile, self.telemetry, facts, self.notes, calls, self._listed_as
            )
            self._progress(crumbs.WRITTEN, label.rpartition(".")[0])
            run_writer.forget_after(self.run, label)
            if not self._closed:
                # What the capture saw may come again or not: steps and compiles are counted until the program ends.
                after = Aftermath(self._extension, partial(run_writer.write_after, self.run, label))
                self._later = LaterCuts(after, self._thread, self._boundaries, self._cut_ran)
                self._later.follow()
                self._optimizers.passes = self._later.rest.of(OPTIMIZER).passes
                sync_guard.stop_observing(self._before_cut, self._after_cut)
        self._backend.clean_up()
