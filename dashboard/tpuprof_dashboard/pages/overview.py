"""The first screen: what holds the run back, in words, figures and the stack of its steps."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import Input, Output, State, dcc, html, no_update

from tpuprof.compare.diff import signed_ms
from tpuprof.parts import DEVICE_PARTS, PARTS, TRACING
from tpuprof.render.content import devices_seen, failed_findings, first_to_try
from tpuprof.render.triage import verdict_note
from tpuprof.report.labels import below_findings, format_rate, host_count, nothing_failed, of_steps
from tpuprof.report.step_times import runs_ahead
from tpuprof.units import format_bytes, format_ms, format_share
from tpuprof_dashboard.components.comparison import changed_findings, changed_parts, changed_times
from tpuprof_dashboard.components.findings import finding_lines
from tpuprof_dashboard.components.layout import (
    chart_after_words,
    empty,
    facts,
    link,
    predicted_note,
    prose,
    section,
    tile,
    tiles,
)
from tpuprof_dashboard.components.triage import measure_next_card, why_card
from tpuprof_dashboard.figures.step_stack import OUTLIER_MARK, step_stack
from tpuprof_dashboard.pages.page import OPEN, Page, View
from tpuprof_dashboard.state import names_text, page_search, read_state
from tpuprof_dashboard.store import Failure
from tpuprof_dashboard.timeline_view import around
from tpuprof_dashboard.words import UNAVAILABLE, capital, part_definition, part_title, reason

if TYPE_CHECKING:
    from dash import Dash

    from tpuprof.report.schema import Report
    from tpuprof_dashboard.store import Store

_TILES = tuple(each.name for each in PARTS if each.tile)
_SHOWN_FINDINGS = 5
_ENVIRONMENT = "environment"


def _render(view: View) -> list[Any]:
    return [
        *_head(view),
        _tiles(view),
        *_notes(view),
        _stack(view),
        _findings(view),
        *why_card(view.report),
        *measure_next_card(view.report),
        _environment(view),
    ]


def _head(view: View) -> list[Any]:
    report = view.report
    alerts = [
        dmc.Alert(prose(note), color="yellow", mt=6, py=6, className="tpu-wrap") for note in report.warnings
    ]
    if report.predicted:
        alerts.insert(0, predicted_note())
    return [
        dmc.Title(report.verdict.sentence, order=1, size="h3", id="verdict", className="tpu-wrap"),
        *_first_to_try(view),
        dmc.Group([_facts(report), _ticket()], justify="space-between", gap="xs", mt=4),
        html.Div(id="ticket-note", role="status"),
        dcc.Download(id="ticket-download"),
        *alerts,
    ]


def _first_to_try(view: View) -> list[Any]:
    """What to do about the first finding, in one line under the verdict, and why that one."""
    advice = first_to_try(view.report)
    if advice is None:
        return []
    first = failed_findings(view.report)[0].rule
    text = f"Try first: {advice.text}" + (f" ({advice.savings})" if advice.savings else "")
    where = view.go("findings", **{OPEN: names_text([first])})
    parts = [link(prose(text), where, fw=600, id="try-first", className="tpu-wrap", display="block", mt=6)]
    if advice.source:
        parts.append(
            dmc.Text(["at ", dmc.Code(advice.source)], size="sm", id="try-first-source", className="tpu-wrap")
        )
    if advice.why:
        parts.append(dmc.Text(advice.why, size="sm", id="try-first-why", className="tpu-wrap"))
    return parts


def _facts(report: Report) -> Any:
    steps, environment = report.steps, report.environment
    text = f"{devices_seen(report)}, {host_count(report)}, {_framework(environment['framework'])}. "
    text += f"Steps found by: {steps.method} ({steps.confidence} confidence)."
    return dmc.Text(text, c="dimmed", size="sm")


def _ticket() -> Any:
    label = (
        "A .zip to attach to an issue: report, environment and a trimmed trace. Names, paths, hosts and keys are "
        "replaced by pseudonyms; its manifest says how many."
    )
    button = dmc.Button("Make ticket report", id="ticket", size="compact-sm", variant="default")
    return dmc.Tooltip(button, label=label, multiline=True, w=320, withinPortal=False)


def _framework(name: str) -> str:
    return name if name and name != "unknown" else "framework unknown"


def _tiles(view: View) -> Any:
    report = view.report
    row = [_step_time(view), *_throughput(report)]
    if report.breakdown:
        row += [_busy(report), *(_part_tile(view, name) for name in _TILES if name not in _zeros(report))]
    return tiles(*row, _mfu(view), _headroom(report))


def _zeros(report: Report) -> list[str]:
    """Parts with a tile that took no time: they are named in one line. What is unavailable keeps its tile."""
    told = [name for name in _TILES if name in report.breakdown and not _untold(report, name)]
    if report.tracing_hidden_ms_per_step:
        told.remove(TRACING)
    return [name for name in told if not report.breakdown[name].ms_per_step]


def _since_base(view: View, part: str = "", *, mean: bool = False) -> str:
    """How a part, or the median or mean step, differs from that of the base run; empty without one."""
    found = view.against
    if found is None:
        return ""
    of_step = found.mean if mean else found.median
    change = next((row.change for row in found.parts if row.name == part), None) if part else of_step
    return f", {signed_ms(change.delta)} against the base" if change is not None and change.delta else ""


def _untold(report: Report, name: str) -> bool:
    """Whether a prediction cannot tell a part."""
    return report.predicted and name not in DEVICE_PARTS


def _notes(view: View) -> list[Any]:
    """Tiles that were folded away, and why the verdict's share is not that of the tile with its name."""
    zeros = [part_title(name) for name in _zeros(view.report)]
    lines = [(f"No time goes to: {', '.join(zeros)}.", "zeros")] if zeros else []
    note = verdict_note(view.report)
    lines += [(note, "verdict-note")] if note else []
    return [dmc.Text(text, size="sm", c="dimmed", id=name, className="tpu-wrap") for text, name in lines]


def _throughput(report: Report) -> list[Any]:
    """Samples per second, where the program states its batch; nothing where it does not."""
    found = report.throughput
    if found.samples_per_s is None or found.samples_per_step is None:
        return []
    definition = (
        "Samples of all processes over the captured steps' time, as the program states them: "
        "tpuprof.step(i, samples=...)."
    )
    return [
        tile(
            "Throughput",
            f"{format_rate(found.samples_per_s)} samples/s",
            f"{format_rate(found.samples_per_step)} samples per step",
            definition,
        )
    ]


def _step_time(view: View) -> Any:
    report = view.report
    steps, mean = report.steps, report.run_summary.mean_step_ms
    definition = (
        "Wall time of the middle step, or of the mean one where the host runs ahead of the device; 95 % are no longer "
        "than p95. Shares and savings are of the mean step."
    )
    if steps.median_ms is None or steps.p95_ms is None:
        return tile("Step time", UNAVAILABLE, steps.note or "no steps in the trace", definition)
    spread = [f"p95 {format_ms(steps.p95_ms)}", f"{steps.count} steps"]
    if mean is not None:
        spread.insert(0, f"mean {format_ms(mean)}")
    if mean is not None and runs_ahead(report):
        # The median is then what a call takes: the text report leads with the mean, too.
        spread[0] = f"the host runs ahead: half of the steps end within {format_ms(steps.median_ms)}"
        return tile(
            "Mean step", format_ms(mean), ", ".join(spread) + _since_base(view, mean=True), definition
        )
    note = ", ".join(spread) + _since_base(view)
    return tile("Median step", format_ms(steps.median_ms), note, definition)


def _busy(report: Report) -> Any:
    title, share = "Device duty cycle", report.run_summary.device_busy_share
    definition = (
        "Share of step time in which the device was in a program, its waits for copies and communication too."
    )
    if share is None:
        return tile(title, UNAVAILABLE, "no device in the trace", definition)
    time = "the whole capture" if report.steps.whole_capture else "step time"
    return tile(title, format_share(share), f"of {time} in a program", definition)


def _mfu(view: View) -> Any:
    compute = view.report.compute
    definition = (
        "Model FLOPs utilisation: FLOPs of the programs over the devices' peak, in the steps' wall time."
    )
    if compute is None:
        return tile("MFU", UNAVAILABLE, "needs steps and a device in the trace", definition)
    note = reason(compute.mfu_note)
    if compute.mfu is None:
        return tile("MFU", UNAVAILABLE, note, definition)
    return tile(
        "MFU",
        format_share(compute.mfu),
        "of peak FLOP/s",
        f"{definition} Told {note}." if note else definition,
    )


def _part_tile(view: View, name: str) -> Any:
    report = view.report
    part = report.breakdown.get(name)
    if _untold(report, name):
        return tile(
            part_title(name), UNAVAILABLE, "a prediction has device times only", part_definition(name)
        )
    value = format_share(part.share) if part else UNAVAILABLE
    note = of_steps(f"{format_ms(part.ms_per_step)} per step", report) if part else "no steps in the trace"
    note += _since_base(view, name)
    if name == "tracing" and report.tracing_hidden_ms_per_step:
        note += f", {format_ms(report.tracing_hidden_ms_per_step)} more hidden"
    return tile(part_title(name), value, note, part_definition(name))


def _headroom(report: Report) -> Any:
    memory = report.memory
    definition = "Device memory (HBM) left at the peak."
    if memory.peak_bytes is None:
        note = reason(memory.unavailable)
        return tile("HBM headroom", UNAVAILABLE, note, definition)
    left = memory.headroom_bytes
    if left is None or memory.capacity_bytes is None:
        return tile("HBM peak", format_bytes(memory.peak_bytes), "capacity unknown", definition)
    note = f"peak {format_bytes(memory.peak_bytes)} of {format_bytes(memory.capacity_bytes)}"
    return tile("HBM headroom", format_bytes(left) if left >= 0 else "none", note, definition)


def _stack(view: View) -> Any:
    report = view.report
    if not report.steps.per_step:
        advice = "Mark steps in the training loop: `with tpuprof.step(i):`, and capture again."
        ops = link("What the device did all the same", view.go("ops")) if report.ops else None
        why = capital(report.steps.note or "no steps were found")
        return html.Div([empty("No steps to draw", f"{why}.", advice), ops])
    figure = step_stack(report, view.template)
    title, bar = "Where each step's time goes", "a bar to see that step"
    words = "Stacked bars of each step's parts; the Steps page has them as a table"
    if report.steps.whole_capture:
        title, bar = "Where the whole capture's time goes", "the bar to see it"
        words = "A bar of the capture's parts; the tiles have them, too"
    note = f"Choose {bar} in the timeline."
    if report.steadiness.outliers:
        note += f" {OUTLIER_MARK} marks steps that stand out; the Steps page says why."
    return section(title, chart_after_words(figure, "step-stack", words), note=note)


def _findings(view: View) -> Any:
    failed = failed_findings(view.report)
    if not view.report.findings:
        reason = "No rule has looked at this run; the verdict above stands on the breakdown alone."
        return section("What to try", empty("No findings", reason))
    if not failed:
        return section("What to try", empty("No finding failed", nothing_failed(view.report)))
    lines = finding_lines(failed[:_SHOWN_FINDINGS], view, "first")
    more = link(f"All {len(view.report.findings)} findings", view.go("findings"))
    order = "Most step time at stake first, a specific cause before a broad one."
    return section("What to try", lines, more, note=f"{order} {below_findings(view.report)}".rstrip())


def _environment(view: View) -> Any:
    report = view.report
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
        [dmc.AccordionControl("Run environment"), dmc.AccordionPanel(facts("environment", rows))],
        value=_ENVIRONMENT,
    )
    opened = _ENVIRONMENT if view.opened([_ENVIRONMENT]) else None
    whole = dmc.Accordion(
        [item], id={"type": "open", "group": _ENVIRONMENT}, value=opened, variant="contained"
    )
    return html.Div(whole, style={"marginTop": 28})


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
        report = store.report(state.get("run", ""))
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
        Output("ticket-download", "data"),
        Output("ticket-note", "children"),
        Input("ticket", "n_clicks"),
        State("url", "search"),
        running=[(Output("ticket", "loading"), True, False)],
        prevent_initial_call=True,
    )
    def make(clicks: int | None, search: str | None) -> Any:
        name = read_state(search).get("run", "")
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


PAGE = Page(
    "overview",
    "Overview",
    "What holds this run back, and what to try.",
    _render,
    register=_register,
    changes=(changed_times, changed_parts, changed_findings),
    signals=(
        "bound",
        "step_ms",
        "typical_ms",
        "typical_parts",
        "busy_share",
        "mxu_share",
        "hbm_share",
        "compile_share",
        "reads_in_steps_share",
    ),
)
