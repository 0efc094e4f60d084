"""The Report: everything a renderer may show, as plain data. Schema `tpuprof.report/1`.

Times are milliseconds unless a name says otherwise; shares lie between 0 and 1. A value that the trace
cannot give is None beside a warning or an `unavailable` reason, never zero.
"""

# Past 400 lines: the whole schema of a report in one place, records without code; parts of it that stand alone are in
# sections.py.

from __future__ import annotations

from dataclasses import field, is_dataclass
from typing import Any

from tpuprof.records import record
from tpuprof.report.memory import Memory
from tpuprof.report.pod import FindingHosts, Pod
from tpuprof.report.sections import (
    CompilationCache,
    CompileHistory,
    Compute,
    FallbackRow,
    GraphCutRow,
    Hosts,
    HostStackRow,
    InputRow,
    LayerRow,
    OpGroupRow,
    OpsLeftOut,
    PhaseRow,
    RunSummary,
    SliceMessageRow,
    Steadiness,
    ThreadRow,
    Throughput,
    Tracing,
)
from tpuprof.report.span_note import SpanNote
from tpuprof.report.triage import DecisionRow, NextMeasurement
from tpuprof.run_folder import REPORT_SCHEMA_NAME

SCHEMA = f"{REPORT_SCHEMA_NAME}/1"
# Names that were wrong, and what each is called now. The JSON keeps the old ones while the schema is version 1.
DEPRECATED = {"scan": "loops", "goodput": "run_summary"}
# The same of the rows of a section, or of the section itself.
DEPRECATED_OF_ROWS = {
    "ops": {"module": "program"},
    "loops": {"module": "program"},
    "pod": {"analysed": "analyzed"},
}


@record(frozen=True)
class Verdict:
    """What holds the run back. `share` is the part of step time at stake; `sentence` says it to people."""

    bound: str
    share: float
    sentence: str


@record(frozen=True)
class StepRow:
    """One step: `index` as the program numbered it, start in ns from the run's origin, its split in ms."""

    index: int
    host: str
    start_ns: int
    wall_ms: float
    breakdown_ms: dict[str, float]
    tracing_hidden_ms: float
    bound: str


@record(frozen=True)
class StepSummary:
    """All steps. `method` names where step boundaries came from, `confidence` is high, medium or low.

    Where no step was found, `whole_capture` is true: `count` is 0, and the one row of `per_step` is the whole capture.
    Of thousands of steps `per_step` lists runs of neighbours at even distances, and `slowest` the slowest, the slowest
    first; `left_out` steps are in none of those runs. All other figures are of all steps.
    """

    count: int
    method: str
    confidence: str
    median_ms: float | None
    p95_ms: float | None
    note: str
    per_step: list[StepRow]
    whole_capture: bool = False
    left_out: int = 0
    slowest: list[StepRow] = field(default_factory=list)

    @property
    def all_hosts(self) -> int:
        """How many steps all hosts have together, listed or not: a row of the whole capture is none."""
        return 0 if self.whole_capture else len(self.per_step) + self.left_out

    @property
    def shown(self) -> list[StepRow]:
        """The steps that are listed, and behind them the slowest that are not."""
        known = {(step.host, step.start_ns) for step in self.per_step}
        return [*self.per_step, *(step for step in self.slowest if (step.host, step.start_ns) not in known)]

    def longest(self, most: int) -> list[StepRow]:
        """So many of the slowest steps, the slowest first."""
        return sorted(self.slowest or self.per_step, key=lambda step: -step.wall_ms)[:most]


@record(frozen=True)
class Part:
    """One part of the breakdown: mean per step in ms and its share of all step time."""

    ms_per_step: float
    share: float


@record(frozen=True)
class Cause:
    """Why a compile happened; kind is first, shape, dtype, constant, sharding, graph or unknown.

    `also` are further places (`file:line`) whose numbers changed: the program is the same again when all are cured.
    `others` says that there may be more of them, which the programs do not tell.
    """

    kind: str
    detail: str
    source_file: str | None = None
    source_line: int | None = None
    also: list[str] = field(default_factory=list)
    others: bool = False

    @property
    def place(self) -> str:
        """The first place of the cause, `file:line`; empty where none is known."""
        return f"{self.source_file}:{self.source_line}" if self.source_file else ""

    @property
    def places(self) -> list[str]:
        """Every known place of the cause, `file:line`."""
        return [self.place, *self.also] if self.place else []


@record(frozen=True)
class CompileRow:
    """One compile: the step's index (None outside any step), the graph's hash, duration and cause.

    `program` is what it made, `graph(fingerprint)`, empty where that did not run in the trace. `novelty` is new, or
    again for a graph that the capture had compiled before: it had fallen out of torch_xla's cache. `in_read` says that
    a read of a value ran the graph by itself: `frames` are then of the read. `defined` is the jitted function with the
    first line of its definition, `function (file:line)`: JAX, where the capture noted it, else empty.
    """

    step: int | None
    host: str
    graph_hash: str
    program: str
    start_ns: int
    duration_ms: float
    cause: Cause
    frames: list[str] = field(default_factory=list)
    novelty: str = "new"
    in_read: bool = False
    defined: str = ""

    @property
    def line(self) -> str:
        """The innermost frame, by which a process counts what compiles later. It counts no reads: theirs is empty."""
        return self.frames[0] if self.frames and not self.in_read else ""


@record(frozen=True)
class CoreRow:
    """One op on one device: `total_ms` as it is on the timeline, `clock_ms` by the device's own clock.

    `clock_ms` is what XProf's op tables show; None where the capture states no device times.
    """

    device: str
    occurrences: int
    total_ms: float
    clock_ms: float | None


@record(frozen=True)
class OpRow:
    """One op of one program, summed over its executions on all devices. `flops`, `bytes` are per execution.

    `clock_ms` is its time by the devices' own clocks, None where one of them states none; `flops_per_byte` its
    operational intensity. `hbm_bytes` is what of `bytes` goes to or from HBM; `bytes_per_s` and the intensity are of
    it. `note` says which figure is None since it breaks the chip's peaks, or that a wait for the host may be for a
    Python callback or for another slice. `limit` is the side of the roofline it is
    on (compute or memory), `roofline` the share of that roof it reaches; `padding` is padded bytes over bytes of its
    arrays, `matmul_type` the element type a matmul reads, `kernel` a custom call's name, `layout_copy` whether it
    only moves data about on the device, `upcast` whether it writes a bfloat16 array out again as float32
    (None where no HLO line tells), `looks_up` whether it gathers or scatters rows of a table (None where neither its
    line nor an embedded program tells), `repeated` on how many devices it computes the same (None where its
    program is unknown or of one device), `double` whether it computes in double precision (None where its program
    is unknown), and `double_from` where those doubles begin.
    `self_ms_per_step` is per step and device, in steps alone: ops add up to the device's parts of the breakdown.
    Of a pod, `hosts` is how many hosts run it, and `host_names` the first of them; None and empty in other reports,
    where `cores` has all devices.
    """

    name: str
    category: str
    kind: str
    program: str
    occurrences: int
    total_ms: float
    self_ms: float
    flops: int | None
    bytes: int | None
    source: str
    annotation: str
    flops_per_s: float | None = None
    bytes_per_s: float | None = None
    limit: str = ""
    roofline: float | None = None
    padding: float | None = None
    matmul_type: str = ""
    kernel: str = ""
    layout_copy: bool = False
    clock_ms: float | None = None
    flops_per_byte: float | None = None
    cores: list[CoreRow] = field(default_factory=list)
    hbm_bytes: int | None = None
    note: str = ""
    self_ms_per_step: float | None = None
    upcast: bool | None = None
    looks_up: bool | None = None
    hosts: int | None = None
    host_names: list[str] = field(default_factory=list)
    repeated: int | None = None
    double: bool | None = None
    double_from: str = ""

    @property
    def module(self) -> str:
        """Deprecated: `program`."""
        return self.program

    @property
    def wasted_ms(self) -> float | None:
        """Self time that would go if the op reached its roofline; None where it has none."""
        return None if self.roofline is None else self.self_ms * (1 - self.roofline)


@record(frozen=True)
class TransferRow:
    """One host-offload copy or one collective, on the first device that tells most of it.

    `kind` is the direction or the kind of collective, `bytes` of one execution, `gb_per_s` over all executions
    and `gb_per_s_alone` while no other had the link (10^9 bytes/s); None is unavailable, for the reason in `note`.
    Of its time in flight, the device computed for `hidden_ms_per_step`, waited for this transfer alone for
    `exposed_ms_per_step` and for other transfers for `waiting_ms_per_step`; else it idled. Of collectives, `role` tells
    a parameter's gather from a gradient's scatter or reduction, `direction` is forward or backward. `ahead_ms` is how
    long before its wait a copy was begun. Of several hosts, `host` is the one whose device that is. `across_slices`:
    it goes through the hosts and the data centre network (DCN) to another slice.
    """

    name: str
    kind: str
    bytes: int | None
    occurrences: int
    gb_per_s: float | None
    gb_per_s_alone: float | None
    exposed_ms_per_step: float
    hidden_ms_per_step: float | None
    tensor: str
    source: str
    annotation: str
    role: str = ""
    parameter: str = ""
    layer: str = ""
    direction: str = ""
    ahead_ms: float | None = None
    waiting_ms_per_step: float | None = None
    note: str = ""
    host: str = ""
    across_slices: bool = False

    @property
    def seen_exposed_ms(self) -> float | None:
        """`exposed_ms_per_step`, None where nothing was seen of the transfer by itself.

        Devices on one line of the trace, as those of a CPU are, wait for each other while another one computes.
        """
        unseen = self.hidden_ms_per_step is None and not self.exposed_ms_per_step
        return None if unseen else self.exposed_ms_per_step


@record(frozen=True)
class HostReadRow:
    """Device-to-host reads of one kind from one source line (empty: unknown), inside steps of all hosts.

    `blocked_ms_per_step` is what the training thread spent in them, waiting for the device included and for compiles
    not. `inside` is how many of them a library makes, by its lines; empty where the program itself reads, null where
    the capture did not note it.
    """

    call: str
    source: str
    occurrences: int
    blocked_ms_per_step: float
    inside: dict[str, int] | None = None


@record(frozen=True)
class AnnotationRow:
    """One annotation: host time inside it and device self time of the ops traced under it, in ms over the run.

    `device_ms_per_step` is per step and device, as `OpRow.self_ms_per_step` is.
    """

    name: str
    kind: str
    occurrences: int
    host_ms: float
    device_ms: float | None
    host_ms_per_step: float | None = None
    device_ms_per_step: float | None = None


@record(frozen=True)
class SourceRow:
    """One source line: device self time of the ops traced from it, in ms over the run on all devices."""

    source: str
    ops: int
    device_ms: float


@record(frozen=True)
class Evidence:
    """One fact a finding rests on: what it is, its value with unit, and where in the run it can be seen.

    `host` and `start_ns` with `duration_ms` point into the timeline, `source` is `file:line`; what is unknown
    is empty or None. `also` are further lines that have the same fault: a cure changes all of them.
    """

    text: str
    value: float | None = None
    unit: str = ""
    host: str = ""
    step: int | None = None
    start_ns: int | None = None
    duration_ms: float | None = None
    source: str = ""
    also: list[str] = field(default_factory=list)

    @property
    def places(self) -> list[str]:
        """Every line that the evidence is of, `file:line`."""
        return [self.source, *self.also] if self.source else []


@record(frozen=True)
class Savings:
    """What a fix would save of each step, from `low` to `high` ms, by `method` measured, counterfactual or bound.

    `step_low_ms` to `step_high_ms` is the mean step that would be left, None where the run has no steps. A fix of what
    happens once saves `start_low_s` to `start_high_s` seconds of each start; `low` and `high` are then spread over many
    steps. `per` says what they are saved of: step, start or capture. `note` says why the price was cut, where it was.
    """

    low: float
    high: float
    method: str
    step_low_ms: float | None = None
    step_high_ms: float | None = None
    start_low_s: float | None = None
    start_high_s: float | None = None
    per: str = "step"
    note: str = ""


@record(frozen=True)
class Fix:
    """What to do, with code before and after (may be empty) and the rule's page under docs/."""

    text: str
    before: str = ""
    after: str = ""
    doc: str = ""


@record(frozen=True)
class ProofRow:
    """One fix that was tried by running the program before and after it in turn. Times in ms, None if unknown.

    `outcome` is confirmed, refuted or undecided; `sentence` says why. `read_from` says what times were read from.
    `saving_low_ms` to `saving_high_ms` is the interval of the measured saving, `pairs` how many pairs it is of.
    `predicted_step_ms` is the captured step that `predicted_low_ms` to `predicted_high_ms` was predicted of.
    `finding_after` is the rule's status in a capture after the fix, empty without one.
    """

    outcome: str
    sentence: str
    read_from: str
    pairs: int
    before_ms: float | None
    after_ms: float | None
    saving_ms: float | None
    saving_low_ms: float | None
    saving_high_ms: float | None
    predicted_low_ms: float | None
    predicted_high_ms: float | None
    finding_after: str
    made_at: str
    predicted_step_ms: float | None = None


@record(frozen=True)
class Finding:
    """What one rule says. `status` is failed, passed, not_applicable, unavailable or error.

    `reason` says why for the last three. `severity` is the share of step time at stake, 0 to 1; `savings` is None
    where the rule cannot price (and `reason` says why). `confidence` is high, medium or low.
    """

    rule: str
    category: str
    status: str
    title: str
    why: str
    severity: float = 0.0
    savings: Savings | None = None
    confidence: str = "medium"
    evidence: list[Evidence] = field(default_factory=list)
    fix: Fix | None = None
    reason: str = ""
    # Rules whose savings are of the same stretches of time: fixing both saves them once.
    shares_saving_with: list[str] = field(default_factory=list)
    # What this fix and all of those save together (ms per step, an upper end); None where that is unknown.
    saves_together_ms: float | None = None
    # What came of its fix where that was tried, the oldest first.
    proofs: list[ProofRow] = field(default_factory=list)
    # Of a pod, on which hosts it failed, and whose evidence and price these are; None in other reports.
    on_hosts: FindingHosts | None = None


@record(frozen=True)
class LoopRow:
    """One `while` of a program (a scan, mostly), a block repeated without a loop (`kind` unrolled), or a line that much
    of a program comes from (`kind` line), as the body of a Python loop does.

    Times in ms on one device. `iteration_ms` lists each iteration's mean over all executions, in order, None
    where the trace does not tell iterations apart; `outliers` are the iterations that stand out. `ops_share_low` to
    `ops_share_high` is the part of the program's ops that belongs to an unrolled block, None where nothing names it;
    of a line, `ops_share_low` is its part of the ops that name a line.
    `within` is the innermost loop around this one, whose time holds this one's.
    """

    name: str
    kind: str
    program: str
    direction: str
    trip_count: int | None
    occurrences: int
    total_ms_per_step: float | None
    iteration_ms: list[float] | None
    outliers: list[int]
    source: str
    detail: str
    ops_share_low: float | None = None
    ops_share_high: float | None = None
    within: str = ""

    @property
    def module(self) -> str:
        """Deprecated: `program`."""
        return self.program


@record(frozen=True)
class Report:
    """What tpuprof says of a run; see the module's docstring for units."""

    source: dict[str, Any]
    generator: dict[str, str]
    environment: dict[str, Any]
    verdict: Verdict
    steps: StepSummary
    breakdown: dict[str, Part]
    tracing_hidden_ms_per_step: float | None
    compiles: list[CompileRow]
    ops: list[OpRow]
    host_reads: list[HostReadRow]
    collectives: list[TransferRow]
    offload: list[TransferRow]
    annotations: list[AnnotationRow]
    sources: list[SourceRow]
    warnings: list[str]
    findings: list[Finding] = field(default_factory=list)
    loops: list[LoopRow] = field(default_factory=list)
    memory: Memory = field(default_factory=lambda: Memory(None, None, "", "not looked at"))
    tracing: Tracing = field(default_factory=Tracing)
    input: list[InputRow] = field(default_factory=list)
    compute: Compute | None = None
    collective_layers: list[LayerRow] = field(default_factory=list)
    hosts: Hosts = field(default_factory=Hosts)
    steadiness: Steadiness = field(default_factory=Steadiness)
    fallbacks: list[FallbackRow] = field(default_factory=list)
    graph_cuts: list[GraphCutRow] = field(default_factory=list)
    compilation_cache: CompilationCache = field(default_factory=lambda: CompilationCache("unknown"))
    run_summary: RunSummary = field(default_factory=RunSummary)
    op_groups: list[OpGroupRow] = field(default_factory=list)
    predicted: bool = False
    phases: list[PhaseRow] = field(default_factory=list)
    host_stacks: list[HostStackRow] = field(default_factory=list)
    threads: list[ThreadRow] = field(default_factory=list)
    compile_history: CompileHistory = field(default_factory=CompileHistory)
    ops_left_out: OpsLeftOut = field(default_factory=OpsLeftOut)
    throughput: Throughput = field(default_factory=Throughput)
    pod: Pod | None = None
    slice_messages: list[SliceMessageRow] = field(default_factory=list)
    # Each comparison that led to the verdict, in order.
    why: list[DecisionRow] = field(default_factory=list)
    # What this run cannot tell, and the command that would.
    measure_next: list[NextMeasurement] = field(default_factory=list)
    # What people noted on spans of the timeline, in order of time.
    span_notes: list[SpanNote] = field(default_factory=list)
    # How often values of each kind were replaced before this report was handed on; None: nothing was replaced.
    redactions: dict[str, int] | None = None
    schema: str = SCHEMA

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-ready dictionaries, `schema` first."""
        plain: dict[str, Any] = _plain(self.sections())
        return plain

    def sections(self) -> dict[str, Any]:
        """The report's fields as the JSON has them, `schema` first: their rows are still dataclasses."""
        offload = [{**vars(row), "direction": row.kind} for row in self.offload]
        for row in offload:
            del row["kind"]
        fields = {"schema": self.schema, **vars(self), "offload": offload}
        for section, columns in DEPRECATED_OF_ROWS.items():
            fields[section] = _with_deprecated(fields[section], columns)
        return {**fields, **{old: fields[name] for old, name in DEPRECATED.items()}}

    @property
    def scan(self) -> list[LoopRow]:
        """Deprecated: `loops`."""
        return self.loops

    @property
    def goodput(self) -> RunSummary:
        """Deprecated: `run_summary`."""
        return self.run_summary


def _with_deprecated(found: Any, columns: dict[str, str]) -> Any:
    if hasattr(found, "plain"):  # columns, which become rows only here
        return list(found.plain(columns))
    return [_with(each, columns) for each in found] if isinstance(found, list) else _with(found, columns)


def _with(row: Any, columns: dict[str, str]) -> dict[str, Any] | None:
    """The fields of a record by their deprecated names as well; None for none."""
    return row and {**vars(row), **{old: getattr(row, name) for old, name in columns.items()}}


def _plain(value: Any) -> Any:
    """Dataclasses as dictionaries, all the way down: `dataclasses.asdict` copies each number, ten times as slow."""
    if isinstance(value, (str, int, float, type(None))):
        return value
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return _plain(vars(value)) if is_dataclass(value) else value
