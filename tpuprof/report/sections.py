"""Sections of the Report that say why: tracing, input, compute, collectives by layer, hosts, steadiness.

Times are milliseconds, per step where a name says so; shares lie between 0 and 1; None is unavailable.
"""

from __future__ import annotations

from dataclasses import field

from tpuprof.records import record


@record(frozen=True)
class RunSummary:
    """The run in a few figures.

    `device_busy_share` is the share of step time in which the devices were in a program, their waits for copies and
    communication included, of the whole capture where no step was found; None without a device in the trace.
    `mean_step_ms` is the mean wall time, which shares and savings refer to, None without steps. `compile_ms` is the
    time of all compiles of the capture.
    """

    device_busy_share: float | None = None
    mean_step_ms: float | None = None
    compile_ms: float = 0.0


@record(frozen=True)
class OpGroupRow:
    """Device self time of ops that share a value: `by` is category, program or annotation, `name` may be empty.

    `self_ms` is over the whole capture on all devices, `ops` counts ops, `occurrences` their executions;
    `self_ms_per_step` is per step and device, and adds up to the device's parts of the breakdown.
    """

    by: str
    name: str
    ops: int
    self_ms: float
    occurrences: int
    self_ms_per_step: float | None = None


@record(frozen=True)
class TracingRow:
    """Tracing of one phase, or under one annotation (`kind` annotation, module, module_backward)."""

    name: str
    kind: str
    exposed_ms_per_step: float
    hidden_ms_per_step: float


@record(frozen=True)
class Tracing:
    """What tracing is made of. Phases sum to all tracing, annotations nest.

    `scan_retraces_per_step` counts how often a scan's body is traced again each step (0 with its cache on), None where
    nothing tells.
    `step_ms_if_free` is the mean step less all exposed tracing: the most that faster tracing could give.
    """

    phases: list[TracingRow] = field(default_factory=list)
    annotations: list[TracingRow] = field(default_factory=list)
    scan_retraces_per_step: float | None = None
    step_ms_if_free: float | None = None


@record(frozen=True)
class InputRow:
    """How one host's batches reach the device.

    `prefetch` is none, background or workers (processes, which the trace does not show), `batch_ms` the median time to
    make a batch, null where none was seen being made, `diagnosis` ok, no_prefetch, slow_workers, restarted_workers,
    slow_loader (making batches takes longer than training on them), shallow_prefetch (it does not, and training still
    waits) or unseen (another thread makes them, training waits, and the capture saw none made).
    """

    host: str
    prefetch: str
    batches_per_step: float
    batch_ms: float | None
    wait_ms_per_step: float
    exposed_ms_per_step: float
    host_to_device_ms_per_step: float
    diagnosis: str


@record(frozen=True)
class CategoryRow:
    """Device self time of one kind of op, on all devices."""

    name: str
    self_ms_per_step: float
    share: float


@record(frozen=True)
class Compute:
    """How well the device's time is used; times are device self time per step and device.

    `mfu` is FLOPs over peak FLOP/s in the steps' wall time; where None, `mfu_note` says why. `kernels` are custom
    calls, Pallas kernels by name. `unstated` are the times that are 0 only because the trace says of no matmul what it
    reads, or of no op how its arrays are laid out, by field: they are unknown.
    """

    mfu: float | None
    mfu_note: str
    peak_flops_per_s: float | None
    peak_hbm_bytes_per_s: float | None
    flops_per_step: float | None
    matmul_ms_per_step: float
    float32_matmul_ms_per_step: float
    layout_copy_ms_per_step: float
    padded_ms_per_step: float
    categories: list[CategoryRow] = field(default_factory=list)
    kernels: list[CategoryRow] = field(default_factory=list)
    # SparseCore work per step and device, and what of it the TensorCore computed beside; None without such a plane.
    sparse_core_ms_per_step: float | None = None
    sparse_core_hidden_ms_per_step: float | None = None
    unstated: list[str] = field(default_factory=list)


@record(frozen=True)
class LayerRow:
    """Collectives of one kind in one layer and direction (empty: unknown), summed over one device's step.

    `bytes_per_step` is None where the trace states the bytes of none of them. `hidden_ms_per_step` and
    `waiting_ms_per_step` are as in `TransferRow`.
    """

    layer: str
    direction: str
    kind: str
    role: str
    count_per_step: float
    bytes_per_step: float | None
    exposed_ms_per_step: float
    hidden_ms_per_step: float | None
    waiting_ms_per_step: float | None = None


@record(frozen=True)
class LateStepRow:
    """One step across hosts: who came last, how late against the first, at which op, what each host waited.

    `mean_waited_ms` is the mean of the hosts, also where they are too many to list.
    """

    step: int
    host: str
    lag_ms: float
    barrier: str
    waited_ms: dict[str, float]
    mean_waited_ms: float | None = None


@record(frozen=True)
class HostRow:
    """One host's own values: never summed over hosts. `clock_offset_ms` is against the first host."""

    host: str
    steps: int
    median_ms: float | None
    device_busy_share: float | None
    tracing_ms_per_step: float | None
    clock_offset_ms: float | None


@record(frozen=True)
class ChipWaitRow:
    """One device's waits for the other chips before programs that need all of them, over the capture (ms).

    The device that waits least came last: `late_ms` is what the one that waits most waits longer than it. In
    `collectives`, those of all devices that lie in steps, it waits for the one that comes last to each;
    `first_ms_in_collectives` is what whichever device of the host comes first to each waits, in all of them.
    """

    host: str
    device: str
    barriers: int
    waited_ms: float
    waited_ms_in_steps: float
    late_ms: float
    collectives: int = 0
    waited_ms_in_collectives: float = 0.0
    first_ms_in_collectives: float = 0.0

    @property
    def all_ms_in_steps(self) -> float:
        """All its waits for the other chips inside steps."""
        return self.waited_ms_in_steps + self.waited_ms_in_collectives


@record(frozen=True)
class Hosts:
    """Hosts side by side. `method` says what lateness is read from, `straggler` is empty where nobody is late."""

    hosts: list[HostRow] = field(default_factory=list)
    method: str = ""
    clocks: str = ""
    straggler: str = ""
    lag_ms_per_step: float | None = None
    late_steps: list[LateStepRow] = field(default_factory=list)
    chip_waits: list[ChipWaitRow] = field(default_factory=list)


@record(frozen=True)
class Throughput:
    """Samples of all processes together, as the mean of the captured steps; None for the reason in `unavailable`."""

    samples_per_step: float | None = None
    samples_per_s: float | None = None
    unavailable: str = ""


@record(frozen=True)
class OutlierRow:
    """A step that stands out: its excess over the median step and the parts that grew, in ms.

    `earlier_ms` is the device's work of steps before, for which the host waits in this one, where that explains the
    excess: a host that runs ahead of its device has such steps, and they are no slow ones.
    """

    step: int
    host: str
    start_ns: int
    wall_ms: float
    excess_ms: float
    reasons: dict[str, float]
    earlier_ms: float = 0.0


@record(frozen=True)
class OpsLeftOut:
    """Ops that a report does not list, since they take next to no time: how many, and their self time (ms).

    `--all-ops` lists them. Sums by category, program and annotation have them.
    """

    ops: int = 0
    self_ms: float = 0.0
    self_ms_per_step: float | None = None


@record(frozen=True)
class Steadiness:
    """Outliers, drift over the run, and what capturing itself did.

    `drift_ms` is the change from the first step to the last, None where there is no trend. `profiler_ratio` is a
    captured step over a steady one before the capture, None where the run folder does not tell. `outliers` are the
    longest ones; `outliers_left_out` more stand out.
    """

    outliers: list[OutlierRow] = field(default_factory=list)
    drift_ms: float | None = None
    drift_p_value: float | None = None
    profiler_ratio: float | None = None
    outliers_left_out: int = 0


@record(frozen=True)
class FallbackRow:
    """An op that torch_xla runs on the CPU, and the line that calls it (empty: unknown), with further ones in `also`.

    `per_step` is how often a step runs it, None where only text of the whole run tells of it. `ms_per_step` is
    what fetching its inputs cost the training thread; with several such ops it cannot be divided among them, and
    each says None. `gradient` says that the backward pass runs it, for the gradient of that line. `inside` is the line
    of a library in which `source` calls it, empty where there is none or the capture did not note it.
    """

    op: str
    per_step: float | None
    source: str
    ms_per_step: float | None = None
    gradient: bool = False
    also: list[str] = field(default_factory=list)
    inside: str = ""

    @property
    def places(self) -> list[str]:
        """Every known line that calls it, `file:line`."""
        return [self.source, *self.also] if self.source else []


@record(frozen=True)
class GraphCutRow:
    """Graphs that one line handed over in a step: `call` is sync, a method that reads a value, or other.

    `source` is empty where the capture does not tell lines.
    """

    call: str
    source: str
    per_step: float


@record(frozen=True)
class SliceMessageRow:
    """Messages of one collective from one slice to another, over the data centre network, that arrived in steps.

    Counts and bytes are of all hosts, per step. A message is on its way for `mean_ms` on average, at `gb_per_s` (10^9
    bytes/s; several travel at once); None where the clocks of sender and receiver disagree for all of them. They do for
    `untimed` messages.
    """

    collective: str
    from_slice: int
    to_slice: int
    messages_per_step: float
    bytes_per_step: float
    mean_ms: float | None
    longest_ms: float | None
    gb_per_s: float | None
    untimed: int = 0


@record(frozen=True)
class CompilationCache:
    """The persistent compilation cache over the whole run; counts are None where the run folder has none.

    `status` is off, ok, never_loads, cold or unknown; `detail` says what was counted.
    """

    status: str
    path: str = ""
    hits: int | None = None
    misses: int | None = None
    loads: int | None = None
    detail: str = ""


@record(frozen=True)
class HostStackRow:
    """Time of the training thread in one sampled Python stack, by the part of the breakdown it went to.

    `frames` are `function (file:line)`, outermost first; `call` is the source text of what the innermost one evaluates.
    `source` (`file:line`) and `user_call` are of the innermost frame of the user's own code, empty where there is none.
    `samples` counts the intervals between samples that this time comes from, over the capture. `holder` is the line of
    another thread that held Python's lock most of the time, with what it called; empty but for waits for that lock.
    """

    part: str
    frames: list[str]
    call: str
    source: str
    user_call: str
    exposed_ms_per_step: float
    hidden_ms_per_step: float
    samples: int = 0
    holder: str = ""


@record(frozen=True)
class CompileHistory:
    """Steps and those of them that compiled: before, in and after the capture; None where nothing counted them.

    `returns` says whether compiles of the captured steps come again: yes, never, unknown, or empty without any.
    `seconds_after` is what compiling took of the `wall_seconds_after` that were counted; `ended` tells that the
    count lasted until the program's end. `graphs_before` were compiled before the capture in `seconds_before`, longest
    at the line `source_before`. `warmup_to_compiles` is how many steps to let pass for a capture of what compiles after
    this one, None where some more steps hold it, and where that is unknown.
    """

    steps_before: int | None = None
    compiling_before: int | None = None
    steps_in: int = 0
    compiling_in: int = 0
    steps_after: int | None = None
    compiling_after: int | None = None
    seconds_after: float | None = None
    wall_seconds_after: float | None = None
    ended: bool = False
    returns: str = ""
    graphs_before: int | None = None
    seconds_before: float | None = None
    source_before: str = ""
    warmup_to_compiles: int | None = None


@record(frozen=True)
class PhaseRow:
    """A stretch of a host's training thread that is not training (evaluation, say): times from the run's origin.

    `cuts` are its graph cuts, `evidence` says how it was recognised. It is before the step with index `step`, and is
    no part of any step; where `inside` is true it is in that step, and counts with it.
    """

    name: str
    host: str
    start_ns: int
    duration_ms: float
    cuts: int
    evidence: str
    step: int
    inside: bool = False


@record(frozen=True)
class ThreadRow:
    """A thread that handed programs to the device: how many in the capture, and their share of all its host's.

    Steps and verdict are of the thread that is `followed`; `why` says what made it that one.
    """

    name: str
    host: str
    programs: int
    share: float
    followed: bool
    why: str = ""
