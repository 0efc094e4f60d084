"""The Report: everything a renderer may show, as plain data. Schema `tpuprof.report/1`.

Times are milliseconds unless a name says otherwise; shares lie between 0 and 1. A value that the trace
cannot give is None beside a warning or an `unavailable` reason, never zero.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

SCHEMA = "tpuprof.report/1"


@dataclass(frozen=True)
class Verdict:
    """What holds the run back. `share` is the part of step time at stake; `sentence` says it to people."""

    bound: str
    share: float
    sentence: str


@dataclass(frozen=True)
class StepRow:
    """One step: `index` as the program numbered it, start in ns from the run's origin, its split in ms."""

    index: int
    host: str
    start_ns: int
    wall_ms: float
    breakdown_ms: dict[str, float]
    tracing_hidden_ms: float
    bound: str


@dataclass(frozen=True)
class StepSummary:
    """All steps. `method` names where step boundaries came from, `confidence` is high, medium or low."""

    count: int
    method: str
    confidence: str
    median_ms: float | None
    p95_ms: float | None
    note: str
    per_step: list[StepRow]


@dataclass(frozen=True)
class Part:
    """One part of the breakdown: mean per step in ms and its share of all step time."""

    ms_per_step: float
    share: float


@dataclass(frozen=True)
class Cause:
    """Why a compile happened; kind is first, shape, dtype, constant, sharding, graph or unknown."""

    kind: str
    detail: str
    source_file: str | None = None
    source_line: int | None = None


@dataclass(frozen=True)
class CompileRow:
    """One compile: the step's index (None outside any step), the graph's hash, duration and cause.

    `program` is what it made, `graph(fingerprint)`, empty where that did not run in the trace.
    """

    step: int | None
    host: str
    graph_hash: str
    program: str
    start_ns: int
    duration_ms: float
    cause: Cause
    frames: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class OpRow:
    """One op of one program, summed over its executions on all devices. `flops`, `bytes` are per execution."""

    name: str
    category: str
    kind: str
    module: str
    occurrences: int
    total_ms: float
    self_ms: float
    flops: int | None
    bytes: int | None
    source: str
    annotation: str


@dataclass(frozen=True)
class TransferRow:
    """One host-offload copy or one collective, on the first device that tells most of it.

    `kind` is the direction or the kind of collective, `bytes` of one execution, `gb_per_s` over all executions
    and `gb_per_s_alone` while no other had the link (10^9 bytes/s); None is unavailable: the capture has no
    `Async XLA Ops` line for it.
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


@dataclass(frozen=True)
class HostReadRow:
    """Device-to-host reads of one kind from one source line (empty: not told), inside steps of all hosts.

    `blocked_ms_per_step` is what the training thread spent in them, waiting for the device included.
    """

    call: str
    source: str
    occurrences: int
    blocked_ms_per_step: float


@dataclass(frozen=True)
class AnnotationRow:
    """One annotation: host time inside it and device self time of the ops traced under it, in ms over the run."""

    name: str
    kind: str
    occurrences: int
    host_ms: float
    device_ms: float | None


@dataclass(frozen=True)
class SourceRow:
    """One source line: device self time of the ops traced from it, in ms over the run on all devices."""

    source: str
    ops: int
    device_ms: float


@dataclass(frozen=True)
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
    predicted: bool = False
    schema: str = SCHEMA

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-ready dictionaries, `schema` first."""
        plain = asdict(self)
        for row in plain["offload"]:
            row["direction"] = row.pop("kind")
        return {"schema": plain.pop("schema"), **plain}
