"""How the verdict was reached, and what to measure next: two cards of the first page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import html

from tpuprof.render.triage import measurements, numbers_of
from tpuprof_dashboard.components.layout import code, plain_table, prose, section

if TYPE_CHECKING:
    from tpuprof.render.triage import Measurement
    from tpuprof.report.schema import Report
    from tpuprof.report.triage import DecisionRow


def why_card(report: Report) -> list[Any]:
    """Each decision of the verdict with its number, its threshold and what would have changed it."""
    if not report.why:
        return []
    columns = ["Decision", "Found", "Needed", "So", "What would have changed it"]
    rows = [_decision(row) for row in report.why]
    return [section("How the verdict was reached", plain_table("why", columns, rows))]


def _decision(row: DecisionRow) -> list[Any]:
    found, needed = numbers_of(row)
    return [row.question, found, needed, row.follows, row.changes_when]


def measure_next_card(report: Report) -> list[Any]:
    """What this run cannot tell, by the command that would."""
    found = measurements(report)
    if not found:
        return []
    note = "What this run cannot tell, and the command that would."
    items = [_measurement(each, number) for number, each in enumerate(found)]
    return [html.Div(section("Measure next", *items, note=note), id="measure-next")]


def _measurement(each: Measurement, number: int) -> Any:
    text = f"Decides {each.decides_text}. {each.advice}" if each.decides else each.advice
    parts = [code(each.command, f"measure-next-{number}")] if each.command else []
    parts.append(dmc.Text(prose(text), size="sm", mt=4, className="tpu-wrap"))
    parts.append(
        dmc.List(
            [dmc.ListItem(dmc.Text(reason, size="xs", c="dimmed")) for reason in each.reasons], size="xs"
        )
    )
    return html.Div(parts, style={"marginBottom": 12})
