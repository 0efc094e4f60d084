"""The first screen: what holds the run back, in words, figures and the stack of its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import dcc, html

from tpuprof.units import format_ms, format_share
from tpuprof_dashboard.components.tables import report_tables
from tpuprof_dashboard.figures.step_stack import step_stack

if TYPE_CHECKING:
    from tpuprof.report.schema import Report

_TILES = (
    ("compute", "Compute"),
    ("tracing", "Exposed tracing"),
    ("compile", "Compiling"),
    ("input_wait", "Input wait"),
    ("device_to_host_sync", "Device-to-host reads"),
    ("collective_exposed", "Exposed collectives"),
    ("offload_exposed", "Exposed host offload"),
)


def overview(report: Report) -> Any:
    """The page of one report."""
    return dmc.Container(
        [_head(report), _tiles(report), *_stack(report), *report_tables(report)], size="xl", py="md"
    )


def _head(report: Report) -> Any:
    steps, environment = report.steps, report.environment
    devices = f"{environment['device_count']} x {environment['device_type'] or 'unknown device'}"
    facts = (
        f"{devices}, {environment['framework']}; steps from {steps.method} ({steps.confidence} confidence)"
    )
    alerts = [dmc.Alert(note, color="yellow", mt="xs") for note in report.warnings]
    if report.predicted:
        note = "Predicted: device times are the compiler's estimate, not a measurement."
        alerts.insert(0, dmc.Alert(note, color="red", mt="xs"))
    return html.Div(
        [dmc.Title(report.verdict.sentence, order=2, id="verdict"), dmc.Text(facts, c="dimmed"), *alerts]
    )


def _tiles(report: Report) -> Any:
    steps = report.steps
    tiles = [
        _tile(
            "Median step",
            format_ms(steps.median_ms) if steps.median_ms is not None else "unavailable",
            steps.note,
        ),
        _tile(
            "p95 step",
            format_ms(steps.p95_ms) if steps.p95_ms is not None else "unavailable",
            f"{steps.count} steps",
        ),
    ]
    for name, title in _TILES:
        part = report.breakdown.get(name)
        value = format_share(part.share) if part else "unavailable"
        tiles.append(
            _tile(title, value, f"{format_ms(part.ms_per_step)} a step" if part else "no steps in the trace")
        )
    return dmc.SimpleGrid(tiles, cols={"base": 2, "sm": 3, "lg": 5}, my="md")


def _tile(title: str, value: str, note: str) -> Any:
    inside = [
        dmc.Text(title, size="sm", c="dimmed"),
        dmc.Text(value, size="xl", fw=700),
        dmc.Text(note, size="xs"),
    ]
    return dmc.Paper(inside, withBorder=True, p="sm")


def _stack(report: Report) -> list[Any]:
    if not report.steps.per_step:
        return [
            dmc.Alert(
                f"No steps to draw: {report.steps.note}. Mark steps with tpuprof.step(i).", color="gray"
            )
        ]
    return [
        dmc.Title("Where each step's time goes", order=3),
        dcc.Graph(figure=step_stack(report), id="steps"),
    ]
