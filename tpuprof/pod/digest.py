"""What of every host's own report the merged one needs; the rest stays packed."""

from __future__ import annotations

from typing import Any

from tpuprof.pod.summary import HostSummary
from tpuprof.records import record
from tpuprof.report.load import report_from
from tpuprof.report.memory import AllocatorRow
from tpuprof.report.schema import CompileRow, Finding, LoopRow
from tpuprof.report.sections import ChipWaitRow, CompileHistory, GraphCutRow, PhaseRow

FAILED = "failed"
# A rule that says neither yes nor no of a host.
UNDECIDED = ("unavailable", "error")


@record(frozen=True)
class Digest:
    """One host: what its own report says that the merged one needs."""

    name: str
    bound: str
    text: str
    failed: list[Finding]
    undecided: set[str]
    compiles: list[CompileRow]
    warnings: list[str]
    chip_waits: list[ChipWaitRow]
    allocator: list[AllocatorRow]
    environment: dict[str, Any]
    history: CompileHistory
    graph_cuts: list[GraphCutRow]
    phases: list[PhaseRow]
    loops: list[LoopRow]
    profiler_ratio: float | None


def digest_of(summary: HostSummary) -> Digest:
    """Read one host's own report."""
    plain: dict[str, Any] = summary.own_report()
    # Long tables are not made into rows only to be dropped.
    report = report_from({**plain, "collectives": [], "offload": []})
    return Digest(
        summary.name,
        report.verdict.bound,
        report.verdict.sentence,
        [each for each in report.findings if each.status == FAILED],
        {each.rule for each in report.findings if each.status in UNDECIDED},
        report.compiles,
        report.warnings,
        report.hosts.chip_waits,
        report.memory.allocator,
        report.environment,
        report.compile_history,
        report.graph_cuts,
        report.phases,
        report.loops,
        report.steadiness.profiler_ratio,
    )
