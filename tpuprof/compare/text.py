"""A comparison of two runs for a terminal, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from tpuprof.compare.diff import Comparison, OpChange, PartChange, counts_from, said, signed_ms, signed_share
from tpuprof.compare.noise import Change
from tpuprof.compare.predicted import NOTE
from tpuprof.render.markdown import code, plain
from tpuprof.render.markdown import table as markdown_table
from tpuprof.render.text import escape
from tpuprof.shown_text import printable
from tpuprof.units import format_bytes, format_ms, format_ms_range, format_share

if TYPE_CHECKING:
    from rich.console import Console

# Rows shown of parts and of ops; the JSON has all (rows).
ROWS_SHOWN = 10


def render(comparison: Comparison, console: Console) -> None:
    """Print a comparison to a rich console."""
    console.print(Text(printable(comparison.sentence), style="bold"))
    for title, columns, rows in _tables(comparison):
        table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for name in columns:
            table.add_column(name.rstrip(":"), justify="right" if name.endswith(":") else "left")
        for row in rows:
            table.add_row(*(escape(cell) for cell in row))
        console.print(table)
    for note in _notes(comparison):
        console.print(Text(printable(note), style="dim"))


def render_markdown(comparison: Comparison) -> str:
    """The comparison as Markdown for a pull request, far below GitHub's limit."""
    parts = [f"### tpuprof diff: {plain(comparison.sentence, 1500)}"]
    for title, columns, rows in _tables(comparison):
        names = {name.rstrip(":") for name in ("part", "op", "where", "rule", "what")}
        cells = [
            [
                code(cell) if column.rstrip(":") in names else plain(cell)
                for column, cell in zip(columns, row, strict=True)
            ]
            for row in rows
        ]
        parts += [f"#### {title}", markdown_table(columns, cells)]
    parts += [plain(note, 600) for note in _notes(comparison)]
    return "\n\n".join(parts) + "\n"


_Table = tuple[str, tuple[str, ...], Sequence[tuple[str, ...]]]


def _tables(comparison: Comparison) -> list[_Table]:
    found: list[_Table] = []
    kind = "predicted step" if comparison.predicted else "mean step"
    if comparison.unlike:
        rows = [(each.what, each.base, each.candidate, each.detail) for each in comparison.unlike]
        found.append(("What differs between the runs", ("what", "base", "candidate", "why it matters"), rows))
    times: list[tuple[str, ...]] = [
        (name, *_cells(change))
        for name, change in (
            ("median step", comparison.median),
            ("mean step", comparison.mean),
            ("p95 step", comparison.p95),
            ("median step without compiles", comparison.steady),
        )
        if change is not None
    ]
    columns: tuple[str, ...] = ("base:", "candidate:", "change:", "95 % bounds:")
    if comparison.predicted:
        columns = columns[:3]
        times = [row[:4] for row in times]
    if times:
        found.append((f"{'Predicted step' if comparison.predicted else 'Step'} time", ("", *columns), times))
    if comparison.findings:
        found.append(_findings(comparison))
    parts = [_part(row, comparison.predicted) for row in comparison.parts[:ROWS_SHOWN]]
    if parts:
        found.append((f"Parts of the {kind}", ("part", *columns, ""), parts))
    ops = [_op(row) for row in comparison.ops[:ROWS_SHOWN]]
    if ops:
        found.append(
            (
                "Ops, predicted device time per step"
                if comparison.predicted
                else "Ops, device self time per step (one capture each: no bounds)",
                ("op", "where", *columns[:3]),
                ops,
            )
        )
    return found


def _findings(comparison: Comparison) -> _Table:
    rows = [
        (
            row.what,
            row.rule,
            row.title,
            format_share(row.base_severity),
            format_share(row.candidate_severity),
            format_ms_range(*row.predicted_ms) if row.predicted_ms else "",
        )
        for row in comparison.findings
    ]
    columns = ("", "rule", "finding", "base:", "candidate:", "predicted gain:")
    return ("Findings (share of step time at stake)", columns, rows)


def _cells(change: Change) -> tuple[str, str, str, str]:
    bounds = (
        "too few steps"
        if change.low is None or change.high is None
        else f"{signed_ms(change.low)} to {signed_ms(change.high)}"
    )
    delta = f"{signed_ms(change.delta)} {signed_share(change.ratio)}".strip()
    return format_ms(change.base), format_ms(change.candidate), delta, bounds


def _part(row: PartChange, predicted: bool) -> tuple[str, ...]:
    cells = _cells(row.change)
    if predicted:
        return (row.name, *cells[:3], "changed" if row.changed else "")
    return (row.name, *cells, said(row.change, row.changed))


def _op(row: OpChange) -> tuple[str, ...]:
    old = format_ms(row.base_ms) if row.base_ms is not None else "none"
    new = format_ms(row.candidate_ms) if row.candidate_ms is not None else "none"
    return (row.op, row.where, old, new, signed_ms((row.candidate_ms or 0.0) - (row.base_ms or 0.0)))


def _notes(comparison: Comparison) -> list[str]:
    notes = []
    if comparison.compiles is not None:
        each = comparison.compiles
        notes.append(
            f"Compiles inside steps: {each.base} in {each.base_steps}, "
            f"candidate {each.candidate} in {each.candidate_steps}."
        )
    old, new = comparison.memory
    if old is not None and new is not None:
        notes.append(f"HBM at the peak: {format_bytes(old)}, candidate {format_bytes(new)}.")
    elif comparison.median is not None:
        notes.append("HBM at the peak: unavailable in at least one of the runs.")
    if comparison.base_bound:
        notes.append(f"Bound by: {comparison.base_bound}, candidate {comparison.candidate_bound}.")
    if comparison.predicted:
        return [NOTE, *notes]
    if comparison.median is not None:
        notes.append(counts_from(comparison))
    return notes
