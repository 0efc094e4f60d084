"""How the verdict came about: each comparison that it made, with what would have changed it."""

from __future__ import annotations

from tpuprof.model.decisions import MS, SHARE, Decision
from tpuprof.report.triage import DecisionRow
from tpuprof.units import format_ms, format_share


def decision_rows(made: list[Decision], wall_ms: float) -> list[DecisionRow]:
    """The comparisons in the order they were made in; `wall_ms` is the step that shares are of."""
    return [
        DecisionRow(
            each.question,
            each.value,
            each.threshold,
            each.unit,
            each.holds,
            each.follows,
            _changes_when(each, wall_ms),
        )
        for each in made
    ]


def _changes_when(each: Decision, wall_ms: float) -> str:
    """What would have given the other answer, and what follows from that one."""
    if each.value is None or each.threshold is None:
        return f"if not: {each.otherwise}" if each.holds else f"if so: {each.otherwise}"
    side = "below" if each.holds else "from"
    away = abs(each.value - each.threshold)
    if each.unit == MS:
        limit, step = format_ms(each.threshold), format_ms(away)
    else:
        limit = format_share(each.threshold)
        # Shares of the step in time as well: that is what a change to the program is felt as.
        step = format_ms(away * wall_ms) if each.unit == SHARE else format_share(away)
    return f"{side} {limit} ({step} {'less' if each.holds else 'more'}): {each.otherwise}"
