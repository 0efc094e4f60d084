"""The first screen: what holds the run back, in words, figures and the stack of its steps."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import Input, Output, State, dcc, html, no_update

from tpuprof.model.attribution import DEVICE_PARTS
from tpuprof.units import format_bytes, format_ms, format_share
from tpuprof_dashboard.components.findings import failed_findings, finding_lines, savings_text
from tpuprof_dashboard.components.layout import (
    chart,
    empty,
    facts,
    link,
    predicted_note,
    section,
    tile,
    tiles,
)
from tpuprof_dashboard.figures.step_stack import OUTLIER_MARK, step_stack
from tpuprof_dashboard.pages.page import Page, View
from tpuprof_dashboard.state import page_search, read_state
from tpuprof_dashboard.store import Failure
from tpuprof_dashboard.timeline_view import around
from tpuprof_dashboard.words import UNAVAILABLE, part_definition, part_title, reason

if TYPE_CHECKING:
    from dash import Dash

    from tpuprof.report.schema import Report
    from tpuprof_dashboard.store import Store

_TILES = (
    "tracing",
    "compile",
    "input_wait",
    "device_to_host_sync",
    "collective_exposed",
    "offload_exposed",
)
_SHOWN_FINDINGS = 5


def _render(view: View) -> list[Any]:
    return [*_head(view), _tiles(view), _stack(view), _findings(view), _environment(view.report)]


def _head(view: View) -> list[Any]:
    report = view.report
    alerts = [dmc.Alert(note, color="yellow", mt="xs", className="tpu-wrap") for note in report.warnings]
    if report.predicted:
        alerts.insert(0, predicted_note())
    return [
        dmc.Title(report.verdict.sentence, order=2, id="verdict", className="tpu-wrap"),
        *_first_to_try(view),
        dmc.Group([_facts(report), _ticket()], justify="space-between", gap="xs", mt=4),
        html.Div(id="ticket-note", role="status"),
        *alerts,
    ]


def _first_to_try(view: View) -> list[Any]:
    """What to do about the first finding, in one line under the verdict."""
    failed = failed_findings(view.report)
    if not failed:
        return []
    price = savings_text(failed[0].savings)
    fix = failed[0].fix
    advice = _first_sentence(fix.text) if fix and fix.text else failed[0].title
    text = f"Try first: {advice}" + (f" ({price})" if price else "")
    return [
        link(text, view.go("findings"), fw=600, id="try-first", className="tpu-wrap", display="block", mt=6)
    ]


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].removesuffix(".")


def _facts(report: Report) -> Any:
    steps, environment = report.steps, report.environment
    devices = f"{environment['device_count']} × {environment['device_type'] or 'unknown device'}"
    hosts = f"{environment['host_count']} host" + ("s" if environment["host_count"] != 1 else "")
    text = f"{devices}, {hosts}, {_framework(environment['framework'])}. "
    text += f"Steps told from: {steps.method} ({steps.confidence} confidence)."
    return dmc.Text(text, c="dimmed")


def _ticket() -> Any:
    label = (
        "A .zip to attach to an issue: report, environment and a trimmed trace. Names, paths, hosts and keys are "
        "replaced by pseudonyms; its manifest says how many."
    )
    button = dmc.Button("Make ticket report", id="ticket", size="compact-sm", variant="default")
    return dmc.Tooltip(button, label=label, multiline=True, w=320)


def _framework(name: str) -> str:
    return name if name and name != "unknown" else "framework not told"


def _tiles(view: View) -> Any:
    report, steps = view.report, view.report.steps
    spread = f"p95 {format_ms(steps.p95_ms)}, {steps.count} steps" if steps.p95_ms is not None else steps.note
    median = format_ms(steps.median_ms) if steps.median_ms is not None else UNAVAILABLE
    row = [
        tile(
            "Median step", median, spread, "Wall time of the middle step; p95: 95 % of steps are no longer."
        ),
        _busy(report),
        *(_part_tile(report, name) for name in _TILES),
        *_mfu(view),
        _headroom(report),
    ]
    return tiles(*row)


def _busy(report: Report) -> Any:
    definition = (
        "Share of step time in which the device was in a program, its waits for copies and communication too."
    )
    if not report.breakdown:
        return tile("Device duty cycle", UNAVAILABLE, "no steps in the trace", definition)
    share = sum(report.breakdown[name].share for name in DEVICE_PARTS if name in report.breakdown)
    return tile("Device duty cycle", format_share(share), "of step time in a program", definition)


def _mfu(view: View) -> list[Any]:
    compute = view.report.compute
    if compute is None:
        return []
    definition = (
        "Model FLOPs utilisation: FLOPs of the programs over the devices' peak, in the steps' wall time."
    )
    value = UNAVAILABLE if compute.mfu is None else format_share(compute.mfu)
    note = reason(compute.mfu_note)
    if compute.mfu is None:
        return [tile("MFU", value, note, definition)]
    return [tile("MFU", value, "of peak FLOP/s", f"{definition} Told {note}." if note else definition)]


def _part_tile(report: Report, name: str) -> Any:
    part = report.breakdown.get(name)
    if report.predicted and name not in DEVICE_PARTS:
        return tile(
            part_title(name), UNAVAILABLE, "a prediction has device times only", part_definition(name)
        )
    value = format_share(part.share) if part else UNAVAILABLE
    note = f"{format_ms(part.ms_per_step)} a step" if part else "no steps in the trace"
    if name == "tracing" and report.tracing_hidden_ms_per_step:
        note += f", {format_ms(report.tracing_hidden_ms_per_step)} more hidden"
    return tile(part_title(name), value, note, part_definition(name))


def _headroom(report: Report) -> Any:
    memory = report.memory
    definition = "Device memory (HBM) left at the peak."
    if memory.peak_bytes is None:
        note = reason(memory.unavailable)
        return tile("HBM headroom", UNAVAILABLE, note, definition)
    if memory.capacity_bytes is None:
        return tile("HBM peak", format_bytes(memory.peak_bytes), "capacity unknown", definition)
    left = memory.capacity_bytes - memory.peak_bytes
    note = f"peak {format_bytes(memory.peak_bytes)} of {format_bytes(memory.capacity_bytes)}"
    return tile("HBM headroom", format_bytes(left) if left >= 0 else "none", note, definition)


def _stack(view: View) -> Any:
    report = view.report
    if not report.steps.per_step:
        advice = "Mark steps in the training loop: `with tpuprof.step(i):`, and capture again."
        return empty("No steps to draw", f"{report.steps.note or 'no steps were found'}.", advice)
    figure = step_stack(report, view.template)
    note = "Choose a bar to see that step in the timeline."
    if report.steadiness.outliers:
        note += f" {OUTLIER_MARK} marks steps that stand out; the Steps page says why."
    return section(
        "Where each step's time goes",
        chart(figure, "step-stack", "Stacked bars of each step's parts; the Steps page has them as a table"),
        note=note,
    )


def _findings(view: View) -> Any:
    failed = failed_findings(view.report)
    if not view.report.findings:
        reason = "No rule has looked at this run; the verdict above stands on the breakdown alone."
        return section("What to try", empty("No findings", reason))
    if not failed:
        return section("What to try", empty("Nothing to fix", "Every rule that applies has passed."))
    lines = finding_lines(failed[:_SHOWN_FINDINGS], view)
    more = link(f"All {len(view.report.findings)} findings", view.go("findings"))
    return section("What to try", lines, more, note="Most step time at stake first.")


def _environment(report: Report) -> Any:
    rows = [
        (_name(key), str(value))
        for key, value in report.environment.items()
        if value is not None and key != "run"
    ]
    run = report.environment.get("run") or {}
    rows += [
        (_name(key), str(value)) for key, value in run.items() if isinstance(value, (str, int, float, bool))
    ]
    rows += [("Files", ", ".join(report.source["files"]))]
    item = dmc.AccordionItem(
        [dmc.AccordionControl("Run environment"), dmc.AccordionPanel(facts(rows))], value="environment"
    )
    return html.Div(dmc.Accordion([item], variant="contained"), style={"marginTop": 28})


def _name(key: str) -> str:
    return key.replace("_", " ").capitalize()


def _register(app: Dash, store: Store) -> None:
    _register_ticket(app, store)

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("step-stack", "clickData"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def open_step(click: dict[str, Any] | None, search: str | None) -> Any:
        from tpuprof.report.schema import Report

        state = read_state(search)
        report = store.report(state.get("run") or store.names()[0])
        point = (click or {}).get("points", [{}])[0].get("customdata")
        if (
            not isinstance(report, Report)
            or not isinstance(point, int)
            or point >= len(report.steps.per_step)
        ):
            return no_update
        step = report.steps.per_step[point]
        start, end = around(step.start_ns, step.wall_ms)
        return page_search(state, "timeline", host=step.host, start=str(start), end=str(end))


def _register_ticket(app: Dash, store: Store) -> None:
    @app.callback(
        Output("download", "data", allow_duplicate=True),
        Output("ticket-note", "children"),
        Input("ticket", "n_clicks"),
        State("url", "search"),
        running=[(Output("ticket", "loading"), True, False)],
        prevent_initial_call=True,
    )
    def make(clicks: int | None, search: str | None) -> Any:
        name = read_state(search).get("run") or next(iter(store.names()), "")
        if not clicks:
            return no_update, no_update
        with tempfile.TemporaryDirectory(prefix="tpuprof-ticket-") as folder:
            out = Path(folder) / "tpuprof-ticket.zip"
            try:
                failure = store.bundle(name, out)
            except OSError as error:
                failure = Failure(f"the ticket report cannot be written ({error.strerror or error}).")
            if failure is not None:
                return no_update, dmc.Alert(failure.message, color="red", mt="xs", className="tpu-wrap")
            note = f"tpuprof-ticket.zip, {format_bytes(out.stat().st_size)}. Read its README.txt before sending it."
            return dcc.send_bytes(out.read_bytes(), out.name), dmc.Text(note, size="sm", c="dimmed", mt=4)


PAGE = Page("overview", "Overview", "What holds this run back, and what to try.", _render, register=_register)
