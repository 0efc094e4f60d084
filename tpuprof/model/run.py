"""A run: every host's trace, its steps, and where their time went."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

from tpuprof.decode.columns import Trace
from tpuprof.decode.find import Found
from tpuprof.decode.limited import limited
from tpuprof.decode.load import load
from tpuprof.decode.torch_trace import read_torch_trace
from tpuprof.errors import Code, TpuprofError
from tpuprof.json_notes import read_json
from tpuprof.model.attribution import Breakdown, attribute
from tpuprof.model.busy_machine import busy_machine
from tpuprof.model.compile.compiles import Compile
from tpuprof.model.compile.hlo_metadata import hlo_protos, read_hlo_metadata
from tpuprof.model.compile.noted import noted_compiles
from tpuprof.model.compile.recurrence import AfterCapture, History, numbers_of, read_after, without_one_off
from tpuprof.model.compile.traced_causes import with_traced_causes
from tpuprof.model.compile.unseen import unseen_compiles
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.allocator import Allocated, allocations
from tpuprof.model.device.collective_role import Role, collective_roles
from tpuprof.model.device.cpu import Queue, queue_of, read_cpu
from tpuprof.model.device.fusions import read_fusions
from tpuprof.model.device.gpu import Gpus, count_gpus, lacking_work, read_gpus
from tpuprof.model.device.loops import Loop, find_loops
from tpuprof.model.device.memory import DeviceMemory, device_memory
from tpuprof.model.device.program_ops import program_ops
from tpuprof.model.device.tpu import Known, read_tpu
from tpuprof.model.device.unrolled import Repetition, find_repetition
from tpuprof.model.host import vocabulary as vocabularies
from tpuprof.model.host.activity import HostActivity, autograd_threads, find_driver, read_host
from tpuprof.model.host.eager_causes import with_upload_causes
from tpuprof.model.host.eager_dispatch import EagerDispatch, eager_dispatch
from tpuprof.model.host.eager_mode import EagerOps, eager_ops
from tpuprof.model.host.event_times import find_marks
from tpuprof.model.host.graph_cuts import GraphCut, graph_cuts
from tpuprof.model.host.handing_over import HandingOver, handing_over
from tpuprof.model.host.input_pipeline import InputPipeline, read_input
from tpuprof.model.host.python_calls import tracer_note
from tpuprof.model.host.reads import HostRead, host_reads, unexplained_reads
from tpuprof.model.host.recorded import recorded_of
from tpuprof.model.host.threads import TrainingThread, training_threads, warnings_of
from tpuprof.model.host.tracing import Tracing, split_tracing
from tpuprof.model.intervals import Spans
from tpuprof.model.notes import Notes, read_notes
from tpuprof.model.preflight_notes import Variant, read_preflight
from tpuprof.model.proof_notes import Proof, read_proofs
from tpuprof.model.steps import Steps, find_steps, no_steps
from tpuprof.model.steps.backlog import with_backlog
from tpuprof.model.steps.few import few_steps, is_whole_capture
from tpuprof.model.telemetry import StepRecord, compile_frames, step_records
from tpuprof.model.timeline import Host, build_host
from tpuprof.parallel import begin, in_threads
from tpuprof.parts import HOST_OTHER
from tpuprof.records import record
from tpuprof.report.run_info import checked
from tpuprof.run_folder import RUN_INFO, RUN_SCHEMA, TORCH_TRACE

# What `read_host_run` takes, except for the reader.
_Job = tuple[str, Path, int | None, tuple[str, ...], History]
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
    # Ops of a step that were programs of their own, where the step runs in eager mode.
    eager_ops: EagerOps | None = None
    # What a step of an eager framework dispatches.
    eager: EagerDispatch | None = None
    # What the time in `dispatch` is made of.
    handing_over: HandingOver | None = None
    # Ops of the programs of a step, where the host's time has to be distinguished from tracing by their number.
    program_ops: int | None = None
    # Python frames of the compile in each step, by step number, where the run folder has them.
    compile_frames: dict[int, list[str]] = field(default_factory=dict)
    # When the training threads were in events that rules ask for by name (`marks` of the vocabulary).
    marks: dict[str, Spans] = field(default_factory=dict)
    # What the process noted of each step, captured or not, where the run folder has it.
    records: list[StepRecord] = field(default_factory=list)
    gpus: Gpus | None = None
    # Programs handed to the CPU device, and those that ran while the profiler was on.
    queue: Queue = field(default_factory=Queue)
    # What the runtime's allocator says, by device.
    allocated: list[Allocated] = field(default_factory=list)
    # Threads that handed programs over, the followed one first.
    threads: list[TrainingThread] = field(default_factory=list)
    # What it counted after the capture, where the run folder has it.
    after: AfterCapture | None = None


@record
class Run:
    """All hosts of a run. `info` is tpuprof's own run.json, empty where the trace came from elsewhere."""

    files: dict[str, Path]
    hosts: list[HostRun]
    info: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)
    # What the TPU compiler said of the script and its variants, where the run folder has a preflight's answer.
    preflight: list[Variant] = field(default_factory=list)
    # Why a host's profile cannot be read, by host.
    unread_hosts: dict[str, str] = field(default_factory=dict)
    # What came of fixes that were tried, where the run folder has it.
    proofs: list[Proof] = field(default_factory=list)

    @property
    def predicted(self) -> bool:
        """Whether the device times are a compiler's estimate, not a measurement."""
        return bool(self.info.get("predicted"))


def build_run(found: Found, executor: Executor | None = None, read: Callable[[Path], Trace] = load) -> Run:
    """Read every host's file, each on its own, through `executor` where one is given, else by `read`.

    Raises `TpuprofError` where a file cannot be read.
    """
    info, notes = read_run_info(found.run_folder)
    devices, names = virtual_devices(info), parameter_names(info)
    jobs = [
        (name, path, devices, names, job_facts(found.run_folder, name)) for name, path in found.files.items()
    ]
    hosts, unread_hosts = _read_all(jobs, executor, read)
    _leave_windows_out(hosts)
    preflight, unread = read_preflight(found.run_folder, info)
    left_out = [f"{name}: this host is left out. {why}" for name, why in unread_hosts.items()]
    warnings = limited(
        [
            *left_out,
            *found.warnings,
            *notes,
            *_noted(info),
            *busy_machine(info),
            *_missing_hosts(info, hosts),
            *unread,
        ]
    )
    files = {host.name: found.files[host.name] for host in hosts}
    return Run(
        files,
        hosts,
        info,
        warnings,
        read_notes(found.run_folder),
        preflight,
        unread_hosts,
        read_proofs(found.run_folder),
    )


def _read_all(
    jobs: list[_Job], executor: Executor | None, read: Callable[[Path], Trace]
) -> tuple[list[HostRun], dict[str, str]]:
    """Every host that can be read, and why the others cannot. Raises `TpuprofError` where none can."""
    here: list[Callable[[], HostRun]] = [partial(read_host_run, *job, read) for job in jobs]
    begun: list[Callable[[], HostRun]] = here
    if executor:
        begun = [_begun(executor, job, again) for job, again in zip(jobs, here, strict=True)]
    hosts: list[HostRun] = []
    errors: dict[str, TpuprofError] = {}
    for (name, *_), result, again in zip(jobs, begun, here, strict=True):
        try:
            hosts.append(_result(result, again))
        except TpuprofError as error:
            errors[name] = error
        except Exception as error:
            if len(jobs) == 1:
                raise
            # A defect that one host's file shows must not take the other hosts with it.
            errors[name] = TpuprofError(
                Code.INTERNAL, f"{type(error).__name__}: {error}.", "Please report this."
            )
    if errors and not hosts:
        raise next(iter(errors.values()))
    return hosts, {name: str(error) for name, error in errors.items()}


def _begun(executor: Executor, job: _Job, again: Callable[[], HostRun]) -> Callable[[], HostRun]:
    try:
        return executor.submit(read_host_run, *job).result
    except BrokenExecutor:
        return again


def _result(begun: Callable[[], HostRun], again: Callable[[], HostRun]) -> HostRun:
    """The host that was begun; where a process has died, of memory say, it is read here."""
    try:
        return begun()
    except BrokenExecutor:
        return again()


def job_facts(folder: Path | None, host: str) -> History:
    """What the process of one host noted of its steps, where the run folder has it."""
    programs = read_torch_trace(folder / TORCH_TRACE) if folder is not None else []
    return History(step_records(folder, host), read_after(folder, host), programs)


def _leave_windows_out(hosts: list[HostRun]) -> None:
    """A host whose only window is its whole capture has no steps where other hosts have: means are over steps."""
    if all(is_whole_capture(host.steps) or not len(host.steps) for host in hosts):
        return
    for host in hosts:
        if is_whole_capture(host.steps):
            host.steps = no_steps()
            host.breakdown = attribute(host.steps, host.devices, host.activity)


def read_run_info(folder: Path | None) -> tuple[dict[str, Any], list[str]]:
    """Tpuprof's run.json and what is wrong with it, if anything; a logdir made by others has none."""
    if folder is None or not (folder / RUN_INFO).exists():
        return {}, []
    try:
        info = read_json(folder / RUN_INFO)
    except (OSError, ValueError) as error:
        return {}, [f"{folder / RUN_INFO} cannot be read ({error}), so the environment is unknown"]
    if not isinstance(info, dict):
        return {}, [f"{folder / RUN_INFO} is not a JSON object"]
    schema = info.get("schema")
    if schema != RUN_SCHEMA:
        return {}, [
            f"{folder / RUN_INFO} has schema {schema!r}, and this tpuprof reads {RUN_SCHEMA!r}: what it says is left "
            f"out. Upgrade tpuprof. [{Code.TOO_NEW.value}]"
        ]
    known, left_out = checked(info)
    return known, [
        f"{folder / RUN_INFO}: {name} is not what it should be, and is left out" for name in left_out
    ]


def _noted(info: dict[str, Any]) -> list[str]:
    """What the capture itself noted as missing or doubtful."""
    notes = info.get("warnings")
    return [str(note) for note in notes] if isinstance(notes, list) else []


def _missing_hosts(info: dict[str, Any], hosts: list[HostRun]) -> list[str]:
    expected = info.get("process_count")
    if not isinstance(expected, int) or len(hosts) >= expected:
        return []
    return [f"the run had {expected} processes, and {len(hosts)} left a profile here: the others are missing"]


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
        found = _analysed(name, trace, virtual_devices, parameter_names, history)
    except Exception:
        trace.check()  # a file that changes meanwhile looks damaged in many ways
        raise
    trace.check()
    return found


# Long because it fills one record: each line makes one field from what the lines above it found.
def _analysed(
    name: str,
    trace: Trace,
    virtual_devices: int | None,
    parameter_names: tuple[str, ...],
    history: History,
) -> HostRun:
    host = build_host(trace, name)
    words = vocabularies.detect(host.event_names, trace.format)
    # Two halves side by side: what takes long over a device's events, and what is asked of the host and of programs.
    devices_read = begin(lambda: _devices(host, virtual_devices))
    driver = find_driver(host, words)
    threads = training_threads(host, words, driver)
    activity = read_host(host, words, driver)
    devices = devices_read()
    gpus = count_gpus(host.gpus, [] if host.devices else devices)
    recorded = recorded_of(host)
    steps = find_steps(driver, devices, words, recorded)
    steps = steps if len(steps) else few_steps(driver, devices, recorded, host_alone=words.eager)
    steps = steps if devices else with_backlog(steps, host, driver, words)
    history = history.in_steps_like(steps)
    compiles = None
    if history.after is not None:
        compiles = noted_compiles(host, words, steps, devices)
        steps, compiles = without_one_off(steps, compiles, history)
    attributed = begin(lambda: attribute(steps, devices, activity))
    protos = dict(hlo_protos(trace))
    if compiles is None:
        compiles = noted_compiles(host, words, steps, devices)
    if words.eager and not protos:
        compiles = with_traced_causes(with_upload_causes(compiles, host, steps), history.programs)
    loops = find_loops(devices[0], steps) if devices else []
    repetition = find_repetition(devices[0], steps, parameter_names) if devices else None
    memory = device_memory(protos, devices[0].type if devices else "")
    roles = collective_roles(devices, protos, parameter_names)
    read_fusions(devices, protos)
    tracing = split_tracing(host, driver, words, activity, steps, devices)
    input_found = read_input(host, driver, words, activity, steps, devices)
    # All that does not need it first: steps are attributed on another core meanwhile.
    breakdown = attributed()
    doubts = [*lacking_work(steps, devices), *tracer_note(driver, words)]
    doubts += unseen_compiles(compiles, history.records) if words.eager and not devices else []
    undecided = int(breakdown.parts.get(HOST_OTHER, steps.wall_ps[:0]).sum())
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
        host_reads=host_reads(driver, words, steps, autograd_threads(host)),
        marks=find_marks(host, words, driver),
        warnings=limited([*trace.errors, *trace.warnings, *host.warnings, *warnings_of(threads), *doubts]),
        tracing=tracing,
        input=input_found,
        loops=loops,
        repetition=repetition,
        memory=memory,
        program_ops=program_ops(devices, steps, protos) if undecided else None,
        collective_roles=roles,
        graph_cuts=graph_cuts(driver, words, steps),
        eager_ops=None if words.eager else eager_ops(host, driver, words, steps, history.records),
        eager=eager_dispatch(host, driver, words, steps),
        handing_over=handing_over(host, words, activity, steps, devices) if driver else None,
        unexplained_reads_ps=unexplained_reads(driver, words, steps),
        gpus=gpus,
        allocated=allocations(host, steps),
        records=history.records,
        compile_frames=compile_frames(history.records, numbers_of(steps)),
        after=history.after,
        threads=threads,
        queue=_queue(host, devices, virtual_devices),
    )


def _devices(host: Host, virtual_devices: int | None) -> list[DeviceActivity]:
    planes = [
        (host.device_planes[index], tracks, host.sparse.get(index, []))
        for index, tracks in sorted(host.devices.items())
        if tracks
    ]
    if planes:
        # Beside the thread that reads the host.
        known = Known()
        return in_threads(lambda each: read_tpu(*each, known), planes, beside=1)
    if host.gpus:
        return read_gpus(host.gpus)  # what host threads say of ops is then the GPUs'
    programs = read_hlo_metadata(host.trace)
    cpu = read_cpu(host.threads, virtual_devices or 1, programs.describe, programs.work_of)
    return [cpu] if cpu else []


def _queue(host: Host, devices: list[DeviceActivity], virtual_devices: int | None) -> Queue:
    if host.gpus or any(each.type != "CPU" for each in devices):
        return Queue()
    return queue_of(host.threads, virtual_devices or 1)


def parameter_names(info: dict[str, Any]) -> tuple[str, ...]:
    """Names of the inputs of the step's program, where a preflight noted them."""
    noted = info.get("preflight")
    names = noted.get("parameter_names") if isinstance(noted, dict) else None
    return tuple(str(name) for name in names) if isinstance(names, list) else ()


def virtual_devices(info: dict[str, Any]) -> int | None:
    """The number of CPU devices, where run.json says it."""
    count = info.get("device", {}).get("global_count") if isinstance(info.get("device"), dict) else None
    return count if isinstance(count, int) and count > 0 else None
