"""What a comparison of two runs says, as sections: whether it is fair first, then what changed beyond noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc

from tpuprof.compare.comparability import Weight
from tpuprof.compare.decision import Outcome, beyond_noise
from tpuprof.compare.diff import counts_from, said, signed_ms, signed_share
from tpuprof.parts import word_of
from tpuprof.units import format_bytes, format_ms, format_ms_range, format_share
from tpuprof_dashboard.components.layout import chart, empty, number, plain_table, section
from tpuprof_dashboard.components.tables import table
from tpuprof_dashboard.figures.bars import stacked_bars
from tpuprof_dashboard.words import part_title

if TYPE_CHECKING:
    from tpuprof.compare.diff import Comparison
    from tpuprof.compare.noise import Change

_BASE, _CANDIDATE = ("#0072B2", ""), ("#D55E00", "/")
COLOURS = {
    Outcome.WORSE: "red",
    Outcome.BETTER: "teal",
    Outcome.SAME: "gray",
    Outcome.UNFAIR: "red",
    Outcome.UNKNOWN: "yellow",
}
_TITLES = {
    Outcome.WORSE: "Worse",
    Outcome.BETTER: "Better",
    Outcome.SAME: "No difference beyond noise",
    Outcome.UNFAIR: "Not comparable",
    Outcome.UNKNOWN: "Cannot be judged",
}
_WEIGHTS = {
    Weight.STOP: "forbids comparing",
    Weight.CARE: "may explain a difference",
    Weight.NOTE: "for your information",
}


def comparison_sections(found: Comparison, template: str) -> list[Any]:
    """All sections of one comparison; of runs that do not compare, only why."""
    head = dmc.Alert(
        dmc.Text(found.sentence, className="tpu-wrap"),
        color=COLOURS[found.outcome],
        id="outcome",
        mt="md",
    )
    parts = [head, _fairness(found)]
    if found.outcome is Outcome.UNFAIR:
        return parts
    return [
        *parts,
        *(make(found, template) for make in (changed_times, changed_parts, changed_findings, changed_ops)),
    ]


def summary(rows: list[tuple[str, Comparison, str]]) -> Any:
    """Several runs against one base, a row each: (label, comparison, the query that shows it)."""
    lines = []
    for label, found, query in rows:
        change = found.median
        cells = _cells(change) if change is not None else ("", "", "", "")
        outcome = dmc.Anchor(_TITLES[found.outcome], href=query, refresh=False, size="sm")
        lines.append([dmc.Text(label, size="sm", className="tpu-wrap"), outcome, *cells])
    return section(
        "All against the base",
        plain_table("compare-runs", ("run", "outcome", "base", "this run", "change", "95 % bounds"), lines),
        note="Of the median step. Choose an outcome to see that run below.",
    )


def _fairness(found: Comparison) -> Any:
    title = "Is it a fair comparison?"
    if not found.unlike:
        text = "Nothing that is known of how the two ran differs: device, versions, variables, work per step."
        return section(title, empty("Yes, as far as the runs tell", text))
    rows = [
        [each.what, each.base, each.candidate, _WEIGHTS[each.weight], each.detail] for each in found.unlike
    ]
    heavy = [each.what for each in found.unlike if each.weight is not Weight.NOTE]
    note = f"Note: {', '.join(heavy)}." if heavy else "Nothing that differs forbids or clouds it."
    return section(
        title,
        plain_table("compare-differs", ("what differs", "base", "candidate", "weight", "why"), rows),
        note=note,
    )


def changed_times(found: Comparison, _template: str) -> Any:
    """Step times, compiles, memory and verdict of both runs."""
    rows = [
        [name, *_cells(change), said(change, beyond_noise(change, found.threshold))]
        for name, change in (
            ("median step", found.median),
            ("mean step", found.mean),
            ("p95 step", found.p95),
            ("median step without compiles", found.steady),
        )
        if change is not None
    ]
    if found.compiles is not None:
        each = found.compiles
        counts = [
            f"{each.base} in {each.base_steps} steps",
            f"{each.candidate} in {each.candidate_steps} steps",
        ]
        rows.append(
            ["compiles", *counts, "", "", "changed" if each.outcome is not Outcome.SAME else "within noise"]
        )
    before, after = (format_bytes(each) if each is not None else "unavailable" for each in found.memory)
    rows.append(["HBM at the peak", before, after, "", "", ""])
    rows.append(
        ["bound by", word_of(found.base_bound).title, word_of(found.candidate_bound).title, "", "", ""]
    )
    return section(
        "Step time",
        plain_table(
            "compare-steps", ("quantity", "base", "candidate", "change", "95 % bounds", "verdict"), rows
        ),
        note=counts_from(found),
    )


def changed_parts(found: Comparison, template: str) -> Any:
    """The parts of the mean step of both runs, as a chart and a table; None where neither has steps."""
    shown = [row for row in found.parts if row.change.base or row.change.candidate]
    if not shown:
        return None
    figure = stacked_bars(
        [part_title(row.name) for row in shown],
        [
            ("base", [row.change.base for row in shown], *_BASE),
            ("candidate", [row.change.candidate for row in shown], *_CANDIDATE),
        ],
        "ms per step",
        template,
        mode="group",
    )
    rows = [
        {
            "part": part_title(row.name),
            "base ms per step": row.change.base,
            "candidate ms per step": row.change.candidate,
            "difference ms": row.change.delta,
            "lower bound": row.change.low,
            "upper bound": row.change.high,
            "verdict": said(row.change, row.changed),
        }
        for row in shown
    ]
    label = "Parts of the mean step in both runs; the table below has them"
    return section(
        "Where a step's time goes",
        chart(figure, "compare-parts", label),
        table("compare-parts", rows),
        note="Of the mean step; those that changed most first.",
    )


def changed_findings(found: Comparison, _template: str) -> Any:
    """Findings that are new, fixed or changed."""
    changes = found.findings
    if not changes:
        return section("Findings", empty("No change", "No finding is new, fixed or changed."))
    rows = [
        [
            each.what,
            each.title,
            format_share(each.base_severity),
            format_share(each.candidate_severity),
            _range(each.predicted_ms),
        ]
        for each in changes
    ]
    columns = ("change", "finding", "base: at stake", "candidate: at stake", "predicted gain of the fix")
    return section(
        "Findings",
        plain_table("compare-findings", columns, rows),
        note="At stake: the share of step time a finding explains.",
    )


def changed_ops(found: Comparison, _template: str) -> Any:
    """Ops whose time changed."""
    changes = found.ops
    title = "Ops that changed"
    if not changes:
        return section(title, empty("None", "No op's time changed by as much as 1 % of the step."))
    rows = [
        {
            "op": each.op,
            "base ms per step": each.base_ms,
            "candidate ms per step": each.candidate_ms,
            "where": each.where,
        }
        for each in changes
    ]
    note = "Device self time per step; one capture of each run, so without bounds. Empty: the run has no such op."
    return section(title, table("compare-ops", rows), note=note)


def _cells(change: Change) -> tuple[Any, Any, Any, str]:
    if change.low is None or change.high is None:
        bounds = "too few steps"
    else:
        bounds = f"{signed_ms(change.low)} to {signed_ms(change.high)}"
    delta = f"{signed_ms(change.delta)} {signed_share(change.ratio)}".strip()
    sides = (number(format_ms(each), each, "ms") for each in (change.base, change.candidate))
    return *sides, number(delta, change.delta, "ms"), bounds


def _range(predicted: tuple[float, float] | None) -> str:
    return f"{format_ms_range(*predicted)} per step" if predicted else ""
