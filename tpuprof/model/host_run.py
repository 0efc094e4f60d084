"""One host of a run: its trace decoded, its steps found, and where their time went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuprof.decode.columns import Trace
from tpuprof.decode.limited import limited
from tpuprof.decode.load import load
from tpuprof.model.attribution import Breakdown, attribute, compiling
from tpuprof.model.compile.compiles import Compile
from tpuprof.model.compile.hlo_metadata import hlo_protos
from tpuprof.model.compile.in_reads import with_reads
from tpuprof.model.compile.later_part import LaterPart, own_part
from tpuprof.model.compile.recurrence import AfterCapture, History, numbers_of
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.allocator import Allocated, allocations
from tpuprof.model.device.collective_role import Role
from tpuprof.model.device.cpu import Queue
from tpuprof.model.device.host_exchanges import with_purposes
from tpuprof.model.device.loops import Loop
from tpuprof.model.device.memory import DeviceMemory
from tpuprof.model.device.of_devices import of_devices, twice_of
from tpuprof.model.device.program_ops import program_ops
from tpuprof.model.device.recorded_devices import seen_in_steps
from tpuprof.model.device.recorded_ops import said_of_missing
from tpuprof.model.device.unrolled import Repetition
from tpuprof.model.device.virtual_devices import counted_as_one, cpu_devices
from tpuprof.model.host import vocabulary as vocabularies
from tpuprof.model.host.activity import HostActivity, read_host, with_lock_after_waits
from tpuprof.model.host.after_reads import without_idle_waits
from tpuprof.model.host.aten_fallbacks import fetching_inputs
from tpuprof.model.host.driver import autograd_threads, find_driver
from tpuprof.model.host.eager_dispatch import CompiledParts, EagerDispatch, compiled_parts, eager_dispatch
from tpuprof.model.host.eager_mode import EagerOps, eager_ops
from tpuprof.model.host.event_times import find_named_events
from tpuprof.model.host.graph_cuts import GraphCut, graph_cuts
from tpuprof.model.host.handing_over import HandingOver, handing_over
from tpuprof.model.host.input_pipeline import InputPipeline, read_input
from tpuprof.model.host.python_calls import tracer_note
from tpuprof.model.host.reads import (
    HostRead,
    array_reads,
    blocked_by_step,
    host_reads,
    implicit_read,
    implicit_reads,
    unexplained_reads,
)
from tpuprof.model.host.slice_messages import SliceMessages, slice_messages
from tpuprof.model.host.threads import TrainingThread, training_threads, warnings_of
from tpuprof.model.host.tracing import Tracing, split_tracing
from tpuprof.model.host.unfinished_work import own_waits, unfinished_work
from tpuprof.model.host.unnamed import Unnamed, unnamed_time
from tpuprof.model.host.uploads import again_share, copied_at, copying, given_to, with_awaited_copies
from tpuprof.model.host.vocabulary import Activity, Vocabulary
from tpuprof.model.host_devices import queue_in_steps, read_devices
from tpuprof.model.host_steps import host_compiles, host_steps
from tpuprof.model.intervals import EMPTY, Int64, Spans, intersect, merge, subtract
from tpuprof.model.read_graphs import ReadGraphs, cutting_reads, read_graphs
from tpuprof.model.steps import Steps
from tpuprof.model.steps.optimizer import steps_with_calls
from tpuprof.model.steps.table import StepSource
from tpuprof.model.telemetry import StepRecord, compile_frames, fallback_counts, none_fell_back
from tpuprof.model.timeline import Host, Track, build_host
from tpuprof.parallel import begin
from tpuprof.parts import HOST_OTHER
from tpuprof.records import record

if TYPE_CHECKING:
    from tpuprof.model.compile.start_graphs import StartGraphs
    from tpuprof.model.device.gpu import Gpus
    from tpuprof.model.device.lines_of_program import ProgramLine
    from tpuprof.model.device.recomputed import Recomputed
    from tpuprof.model.device.unused_gradients import UnusedWork
    from tpuprof.model.later_places import LaterPlace
    from tpuprof.model.long_later import LongLater

NO_HISTORY = History()


@record
class HostRun:
    """One host of a run, analyzed on its own clock."""

    name: str
    size: int
    origin_ns: int
    framework: str
    devices: list[DeviceActivity]
    activity: HostActivity
    steps: Steps
    breakdown: Breakdown
    compiles: list[Compile]
    host_reads: list[HostRead]
    warnings: list[str]
    tracing: Tracing
    input: InputPipeline | None
    loops: list[Loop]
    repetition: Repetition | None
    memory: DeviceMemory
    collective_roles: dict[tuple[str, str], Role]
    graph_cuts: list[GraphCut]
    # Time in steps of transfers from the device that no read of the program explains (ps).
    unexplained_reads_ps: int
    # How long reads of each step wait for work that it hands over beyond what the others do (ps), where no device plane
    # tells; else None.
    own_waits: Int64 | None = None
    # Share of the time of copies to the device in steps that copies what it had already.
    copied_again: float = 0.0
    # The jitted function whose calls are given most of what is copied to the device in steps, empty where none is.
    copied_for: str = ""
    # The line (`file:line`) whose calls take most of the time of those copies, empty where none does.
    copied_at: str = ""
    # Time in steps in which its threads copy to the device (ps).
    copying_ps: int = 0
    # Steps in which an optimizer stepped.
    optimizer_steps: int = 0
    # Programs that reads of values ran in mid-step, and those that ops on the host ran for their inputs.
    read_graphs: list[ReadGraphs] = field(default_factory=list)
    fallback_graphs: list[ReadGraphs] = field(default_factory=list)
    # Ops of a step that were programs of their own, where the step runs in eager mode.
    eager_ops: EagerOps | None = None
    # What a step of an eager framework dispatches.
    eager: EagerDispatch | None = None
    # What a step of torch_xla calls of torch.compile.
    compiled_parts: CompiledParts | None = None
    # What the time in `dispatch` is made of.
    handing_over: HandingOver | None = None
    # Ops of the programs of a step, where the host's time has to be distinguished from tracing by their number.
    program_ops: int | None = None
    # Python frames of the compile in each step, by step number, where the run folder has them.
    compile_frames: dict[int, list[str]] = field(default_factory=dict)
    # When the training threads were in events that rules ask for by name (`named_events` of the vocabulary).
    named_events: dict[str, Spans] = field(default_factory=dict)
    # What the process noted of each step, captured or not, where the run folder has it.
    records: list[StepRecord] = field(default_factory=list)
    gpus: Gpus | None = None
    # The user's lines that most ops of the step's program come from, where no layers are seen to repeat.
    program_lines: list[ProgramLine] = field(default_factory=list)
    # On how many devices the step's program has the same inputs; 1 where each has its own, or that is unknown.
    alike_inputs: int = 1
    # Programs handed to the CPU device, and those that ran while the profiler was on.
    queue: Queue = field(default_factory=Queue)
    # What the runtime's allocator says, by device.
    allocated: list[Allocated] = field(default_factory=list)
    # Threads that handed programs over, the followed one first.
    threads: list[TrainingThread] = field(default_factory=list)
    # What it counted of the captured part of training after the capture, where the run folder has it.
    after: AfterCapture | None = None
    # The part of training that began there, which `after` is not of; None without one.
    later_part: LaterPart | None = None
    # Where its training thread was after a recording by the clock, where it looked (`capture.later_looks`).
    looks: dict[str, Any] = field(default_factory=dict)
    slice_messages: list[SliceMessages] = field(default_factory=list)
    # What the reader should know beside what is missing: devices without work in the steps, a tracer that slows it.
    notes: list[str] = field(default_factory=list)
    # What the training thread is inside while the device idles for no known cause.
    unnamed: Unnamed | None = None
    # Whether the trace has planes of devices, and shows no work of any.
    blind: bool = False
    # Devices that work in a part of the steps only: figures are not of them. And planes of devices, with work or none.
    devices_left_out: int = 0
    device_planes: int = 0
    # What its programs do for gradients that no optimizer uses; None where no such gradient or no program is known.
    unused: UnusedWork | None = None
    # What the programs of the steps compute again; None where nothing says that they may.
    recomputed: Recomputed | None = None
    # Sorts, each as program and op, of which the program uses a part.
    part_sorts: frozenset[tuple[str, str]] = frozenset()
    # Its first steps, where each compiled a graph of its own.
    start: StartGraphs | None = None

    @property
    def after_steps(self) -> AfterCapture | None:
        """What it counted after the capture, where the captured steps are steps that compare with those; else None."""
        return None if self.steps.source is StepSource.WHOLE_CAPTURE else self.after

    @cached_property
    def long_later(self) -> LongLater | LaterPlace | None:
        """Steps after the capture far longer than their like, and where the host is then; None where none are.

        Of a program without steps, a place at which the host is then, and never was in the capture.
        """
        if self.looks:
            from tpuprof.model.later_places import place_of

            return place_of(self.looks, self.activity.samples)
        if self.after is None or not self.after.long.steps:
            return None
        from tpuprof.model.long_later import long_later
        from tpuprof.model.outside_capture import beside_steps, between_steps

        samples = self.activity.samples
        # An evaluation between captured steps is not one of them: later steps hold it.
        own = samples.outside(beside_steps(self.steps)) if samples is not None else None
        return long_later(self.steps.wall_ps, self.after_steps, own, between_steps(self.steps))


def read_host_run(
    name: str,
    path: Path,
    virtual_devices: int | None = None,
    parameter_names: tuple[str, ...] = (),
    history: History = NO_HISTORY,
    read: Callable[[Path], Trace] = load,
) -> HostRun:
    """Decode and analyze one host's file.

    `virtual_devices` is the number of CPU devices, `parameter_names` what the inputs of the step's program are
    called, `history` what the process noted of its steps, all where known. Raises `TpuprofError` where the file
    cannot be read.
    """
    trace = read(path)
    try:
        found = _analyzed(name, trace, virtual_devices, parameter_names, history)
    except Exception:
        trace.check()  # a file that changes meanwhile looks damaged in many ways
        raise
    trace.check()
    return found


def _analyzed(
    name: str,
    trace: Trace,
    virtual_devices: int | None,
    parameter_names: tuple[str, ...],
    history: History,
) -> HostRun:
    host = build_host(trace, name)
    words = vocabularies.detect(host.event_names, trace.format)
    if virtual_devices is None and not host.devices and not host.gpus:
        virtual_devices = cpu_devices(host.threads)
    # Two halves side by side: what takes long over a device's events, and what is asked of the host and of programs.
    devices_read = begin(lambda: read_devices(host, virtual_devices))
    driver = find_driver(host, words)
    threads = training_threads(host, words, driver)
    computed = _computed(host, driver, words) if history.ops_at_once else EMPTY
    activity = read_host(host, words, driver, all_lowered=none_fell_back(history.records), computed=computed)
    protos = dict(hlo_protos(trace))
    devices = with_purposes(devices_read(), host.event_names, protos, calls_python=words.host_callbacks)
    history, later_part = own_part(history, activity.samples)
    steps, compiles, history = host_steps(host, words, driver, devices, activity, history, protos)
    seen = seen_in_steps(devices, len(host.devices) or len(host.gpus), steps)
    devices = seen.devices
    busy = [each.busy for each in devices]
    activity = without_idle_waits(with_lock_after_waits(activity, driver, busy), busy)
    activity = with_awaited_copies(activity, host, driver, busy)
    attributed = begin(lambda: attribute(steps, devices, activity))
    compiles = host_compiles(host, words, steps, devices, compiles, history, unnamed=not protos)
    lowered = none_fell_back(history.records)
    compiles = with_reads(compiles, driver, words, activity.samples, all_lowered=lowered)
    fields = {
        "notes": [
            *seen.notes,
            *counted_as_one(devices, virtual_devices),
            *tracer_note(driver, words),
            *twice_of(words, devices, steps, protos),
        ],
        "blind": seen.blind or (bool(host.devices) and not devices),
        "devices_left_out": seen.left_out,
        "device_planes": len(host.devices) or len(host.gpus),
        **of_devices(devices, steps, protos, parameter_names, history),
    }
    fields |= _of_host(host, words, driver, steps, devices, activity, history, protos)
    fields["eager"] = eager_dispatch(host, driver, words, steps, computed)
    # All that does not need it first: steps are attributed on another core meanwhile.
    breakdown = replace(attributed(), blocked=blocked_by_step(fields["host_reads"], steps))
    if not devices:
        unfinished, feeding = unfinished_work(host, driver, words, steps, activity.compiling)
        breakdown = replace(breakdown, unfinished=unfinished, feeding=feeding)
    doubts = [*warnings_of(threads), *seen.stopped, *said_of_missing(steps)]
    if host.gpus:
        from tpuprof.model.device.gpu import count_gpus, lacking_work

        doubts += lacking_work(steps, devices)
        fields["gpus"] = count_gpus(host.gpus, [] if host.devices else devices)
    queue = queue_in_steps(host, devices, virtual_devices, steps)
    if words.eager and not devices:
        from tpuprof.model.compile.unseen import unseen_compiles
        from tpuprof.model.host.queued_programs import queued_programs

        doubts += unseen_compiles(compiles, history.records)
        queue = queued_programs(host, driver, words, steps, activity.compiling)
    return HostRun(
        name=name,
        size=trace.size,
        origin_ns=host.origin_ns,
        framework=words.framework,
        devices=devices,
        activity=activity,
        steps=steps,
        breakdown=breakdown,
        compiles=compiles,
        warnings=limited([*trace.errors, *trace.warnings, *host.warnings, *doubts]),
        program_ops=_program_ops(breakdown, devices, steps, protos),
        threads=threads,
        queue=queue,
        later_part=later_part,
        **fields,
    )


def _computed(host: Host, driver: Track | None, words: Vocabulary) -> Spans:
    from tpuprof.model.host.ops_without_graphs import ops_without_graphs

    return ops_without_graphs(host, driver, words)


def _of_host(
    host: Host,
    words: Vocabulary,
    driver: Track | None,
    steps: Steps,
    devices: list[DeviceActivity],
    activity: HostActivity,
    history: History,
    protos: dict[str, bytes],
) -> dict[str, Any]:
    """Fields of a host that are read from its threads, and from what the process noted."""
    reading = [driver, *autograd_threads(host)] if driver else []
    lowered, fell_back = none_fell_back(history.records), fallback_counts(history.records)
    implicit = implicit_reads(reading, words, steps, activity.samples) if lowered else []
    blocked = activity.spans(Activity.DEVICE_TO_HOST_SYNC)
    of_jax = driver if words.framework == "jax" else None
    unmarked = array_reads(activity.samples, blocked, steps, of_jax, words)
    return {
        "read_graphs": read_graphs(cutting_reads, reading, words, steps, devices, protos, activity.compiling)
        + _graphs_of(implicit, reading, words, steps, devices, protos, activity),
        "fallback_graphs": read_graphs(fetching_inputs, reading, words, steps, devices, protos)
        if fell_back
        else [],
        "tracing": split_tracing(host, driver, words, activity, steps, devices),
        "input": read_input(host, driver, words, activity, steps, devices),
        "host_reads": host_reads(
            driver, words, steps, autograd_threads(host), implicit, _no_waits(activity, devices), unmarked
        ),
        "named_events": find_named_events(host, words, driver),
        "graph_cuts": graph_cuts(driver, words, steps),
        "optimizer_steps": steps_with_calls(driver, steps.end),
        "eager_ops": eager_ops(host, driver, words, steps, devices, activity, history.records),
        "compiled_parts": compiled_parts(host, driver, words, steps, _waiting(activity, devices)),
        "copied_again": again_share(driver, activity, steps),
        "copied_for": given_to(driver, words, steps),
        "copied_at": copied_at(driver, activity, steps),
        "copying_ps": copying(host, activity, steps),
        "unnamed": unnamed_time(driver, activity, steps, devices),
        "handing_over": handing_over(host, words, activity, steps, devices) if driver else None,
        "unexplained_reads_ps": unexplained_reads(driver, words, steps),
        "allocated": allocations(host, steps),
        "own_waits": None if devices else own_waits(driver, words, steps),
        "records": history.records,
        "compile_frames": compile_frames(history.records, numbers_of(steps)),
        "after": history.after,
        "looks": history.looks,
        "slice_messages": slice_messages(host, steps),
        "start": _start(history, protos),
    }


def _start(history: History, protos: dict[str, bytes]) -> StartGraphs | None:
    if not any(each.compiles for each in history.records):
        return None
    from tpuprof.model.compile.start_graphs import start_graphs

    return start_graphs(history.records, protos)


def _graphs_of(
    implicit: list[HostRead],
    reading: list[Track],
    words: Vocabulary,
    steps: Steps,
    devices: list[DeviceActivity],
    protos: dict[str, bytes],
    activity: HostActivity,
) -> list[ReadGraphs]:
    """Programs that reads ran which no call of the program asks for, as of how many elements a result has."""
    if not implicit:
        return []
    return read_graphs(
        fetching_inputs,
        reading,
        words,
        steps,
        devices,
        protos,
        activity.compiling,
        lambda thread, row: implicit_read(thread, row, activity.samples),
    )


def _waiting(activity: HostActivity, devices: list[DeviceActivity]) -> Spans:
    """When the training thread waits for the device, and it works."""
    waits = merge(*map(activity.spans, (Activity.DEVICE_TO_HOST_SYNC, Activity.DEVICE_WAIT)))
    return intersect(waits, devices[0].busy) if devices else EMPTY


def _no_waits(activity: HostActivity, devices: list[DeviceActivity]) -> Spans:
    """When a read waits for no value: for Python's lock alone, or for a compile while the device has nothing to do."""
    busy = merge(*(each.busy for each in devices))
    return merge(activity.held_in_waits, subtract(compiling(activity), busy))


def _program_ops(
    breakdown: Breakdown, devices: list[DeviceActivity], steps: Steps, protos: dict[str, bytes]
) -> int | None:
    """Ops of a step's programs, where some of the host's time is not attributed."""
    undecided = int(breakdown.parts.get(HOST_OTHER, steps.wall_ps[:0]).sum())
    return program_ops(devices, steps, protos) if undecided else None
