"""Tables of what the analysis says: compiles with causes, findings and their evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.analysis.sections.compiles import compile_rows
from tpuprof.report.schema import Finding
from tpuprof.tables.columns import rows_table
from tpuprof.tables.ids import evidence_id

if TYPE_CHECKING:
    from tpuprof.tables.source import Source


def compiles(source: Source) -> Any:
    """One row per compile of each host."""
    return rows_table(
        "compiles",
        [
            (
                host.name,
                row.step,
                row.program,
                row.graph_hash,
                each.start_ps,
                each.duration_ps,
                row.novelty,
                row.cause.kind,
                row.cause.detail,
                row.cause.place,
                "\n".join(row.frames),
            )
            for host in source.run.hosts
            for each, row in zip(host.compiles, compile_rows(host, source.run.notes), strict=True)
        ],
    )


def span_notes(source: Source) -> Any:
    """One row per note."""
    return rows_table(
        "span_notes",
        [
            (each.host, each.lane, each.name, each.start_ns, each.duration_ns, each.text, each.written_at)
            for each in source.report.span_notes
        ],
    )


def findings(source: Source) -> Any:
    """One row per rule."""
    return rows_table("findings", [_finding(each) for each in source.report.findings])


def evidence(source: Source) -> Any:
    """One row per fact, in the order in which the report has them."""
    return rows_table(
        "evidence",
        [
            (
                evidence_id(finding.rule, number),
                finding.rule,
                each.text,
                each.value,
                each.unit,
                each.host,
                each.step,
                each.start_ns,
                each.duration_ms,
                each.source,
            )
            for finding in source.report.findings
            for number, each in enumerate(finding.evidence, 1)
        ],
    )


def _finding(each: Finding) -> tuple[Any, ...]:
    saving = each.savings
    return (
        each.rule,
        each.category,
        each.status,
        each.title,
        each.why,
        each.severity,
        saving.low if saving else None,
        saving.high if saving else None,
        saving.per if saving else None,
        saving.method if saving else None,
        each.confidence,
        each.reason,
        each.fix.text if each.fix else None,
    )
