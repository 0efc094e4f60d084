"""Every finding: what fails first, ranked by what it would save; the rest closed, with reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import Input, Output, State, html, no_update

from tpuprof.errors import TpuprofError
from tpuprof.render.content import failed_findings, saves
from tpuprof.report.schema import Finding, Report
from tpuprof.rules.what_if import what_if
from tpuprof.signals import Signals
from tpuprof.units import format_ms, format_ms_range
from tpuprof_dashboard.components.asking import asked, asking, register_asking
from tpuprof_dashboard.components.comparison import changed_findings
from tpuprof_dashboard.components.findings import finding_lines, findings_of_status
from tpuprof_dashboard.components.layout import current, empty, link, section
from tpuprof_dashboard.components.tables import table
from tpuprof_dashboard.pages.page import Page, View
from tpuprof_dashboard.shell import POLL_MS
from tpuprof_dashboard.state import names_in, names_text, read_state, search_of
from tpuprof_dashboard.store import Failure, Loading, Store
from tpuprof_dashboard.words import STATUS_TITLES

if TYPE_CHECKING:
    from dash import Dash

# The parameter that names the findings ticked in "What if".
_TICKED = "fix"
_CLOSED = ("passed", "not_applicable", "unavailable", "error")


def _render(view: View) -> list[Any]:
    findings = view.report.findings
    if not findings:
        reason = (
            "No rule has looked at this run. The Overview's verdict and breakdown say where its time goes."
        )
        return [
            empty("No findings", reason, "A newer tpuprof may bring rules: `tpuprof --version` tells yours.")
        ]
    wanted = view.state.get("category")
    shown = [each for each in findings if wanted in (None, each.category)]
    failed = [each for each in failed_findings(view.report) if each in shown]
    head = f"{len(failed)} to fix" + (f" in {wanted}" if wanted else "")
    parts: list[Any] = [_filter(view), section(head, _failed(failed, view, wanted))]
    parts.append(_what_if_panel([each for each in failed if each.savings], view))
    parts += [findings_of_status(status, view) for status in _CLOSED]
    rules = link("What every rule looks for", view.go("rule"))
    return [*parts, section("All as a table", table("findings", [_row(each) for each in shown]), rules)]


def _what_if_panel(priced: list[Finding], view: View) -> Any:
    if not priced:
        return None
    boxes = [dmc.Checkbox(label=each.title, value=each.rule, mb=6) for each in priced]
    note = "Savings overlap, so they do not add up: the step is replayed without all causes ticked."
    result = html.Div(id="what-if-result", role="status")
    poll = asking("what-if-poll", POLL_MS, disabled=True)
    ticked = [rule for rule in names_in(view.state, _TICKED) if any(each.rule == rule for each in priced)]
    group = dmc.CheckboxGroup(boxes, id="what-if", value=ticked)
    return section("What if", group, result, *poll, note=note)


def _register(app: Dash, store: Store) -> None:
    register_asking(app, "what-if-poll")
    _register_ticks(app)
    _register_prediction(app, store)


def _register_ticks(app: Dash) -> None:
    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("what-if", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def keep(rules: list[str] | None, search: str | None) -> Any:
        state = read_state(search)
        if rules is None or set(rules) == set(names_in(state, _TICKED)):
            return no_update
        return search_of(state, **{_TICKED: names_text(rules)})


def _register_prediction(app: Dash, store: Store) -> None:
    @app.callback(
        Output("what-if-result", "children"),
        Output("what-if-poll", "disabled"),
        Input("what-if", "value"),
        asked("what-if-poll"),
        State("url", "search"),
    )
    def predict(rules: list[str] | None, _ticks: int | None, search: str | None) -> Any:
        name = read_state(search).get("run", "")
        report = store.report(name)
        if not rules or not isinstance(report, Report):
            return None, True
        details = store.details(name)
        if isinstance(details, Loading):
            return dmc.Text("Reading the trace to replay its steps …", c="dimmed"), False
        if isinstance(details, Failure):
            return dmc.Alert(details.message, color="gray"), True
        if details.run is None:
            return dmc.Alert(
                "A saved report holds no trace whose steps could be replayed.", color="gray"
            ), True
        try:
            found = what_if(Signals(report, details.run), rules)
        except TpuprofError as error:
            return dmc.Alert(str(error), color="gray"), True
        after = format_ms_range(found.low_ms, found.high_ms)
        text = f"A step of {format_ms(found.measured_ms)} would take {after}."
        skipped = dmc.Text(f"Left out: {'; '.join(found.skipped)}", size="sm") if found.skipped else None
        return [dmc.Text(text, fw=600), skipped], True


def _filter(view: View) -> Any:
    categories = sorted({each.category for each in view.report.findings})
    links = [_chip("all categories", view.here(category=None), "category" not in view.state)]
    links += [
        _chip(each, view.here(category=each), view.state.get("category") == each) for each in categories
    ]
    return html.Nav(dmc.Group(links, gap="xs"), **{"aria-label": "Categories"})


def _chip(title: str, search: str, chosen: bool) -> Any:
    """A filter; the chosen one is framed and says so to screen readers."""
    style = {
        "border": "1px solid currentColor" if chosen else "1px solid transparent",
        "borderRadius": 14,
        "padding": "2px 10px",
    }
    return html.Span(link(title, search, fw=700 if chosen else 400, **current(chosen)), style=style)


def _failed(failed: list[Any], view: View, wanted: str | None) -> Any:
    if failed:
        return finding_lines(failed, view, "failed")
    place = f" in {wanted}" if wanted else ""
    return empty(
        f"No finding failed{place}",
        "Every rule that applies here has passed, or could not be checked: see below.",
    )


def _row(each: Any) -> dict[str, Any]:
    return {
        "rule": each.rule,
        "category": each.category,
        "status": STATUS_TITLES.get(each.status, each.status),
        "title": each.title,
        "savings": saves(each),
        "share at stake": each.severity,
        "confidence": each.confidence,
        "reason": each.reason,
    }


PAGE = Page(
    "findings",
    "Findings",
    "What every rule says, and what its fix would save.",
    _render,
    keys=("category",),
    register=_register,
    changes=(changed_findings,),
)
