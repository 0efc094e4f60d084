"""Findings as rows that open to why, evidence and fix. What a closed row holds is sent when it opens.

Dash's time in the browser grows with the square of the number of components: all rules with their evidence are a
thousand, of which a reader opens a few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import ALL, MATCH, Input, Output, State, html, no_update

from tpuprof.render.content import amount, saves
from tpuprof.render.finding_hosts import host_sentences
from tpuprof.render.savings import tried
from tpuprof.report.labels import method_title, places_text, shared_saving
from tpuprof.report.schema import Report
from tpuprof.units import format_ms_range, format_share
from tpuprof_dashboard.components.layout import code, link, number, plain_table
from tpuprof_dashboard.pages.page import View
from tpuprof_dashboard.state import read_state
from tpuprof_dashboard.words import STATUS_TITLES

if TYPE_CHECKING:
    from dash import Dash

    from tpuprof.report.schema import Evidence, Finding
    from tpuprof_dashboard.store import Store

# Evidence shown of one finding (rows); the Report's JSON has all.
MAX_EVIDENCE = 50
# Marks that tell a status without colour.
_MARKS = {"failed": "▲", "passed": "✓", "not_applicable": "–", "unavailable": "?", "error": "!"}
_COLOURS = {"failed": "orange", "passed": "green", "error": "red"}


# Groups of this prefix hold one row per status, with all findings of the status in it.
_OF_STATUS = "all-"


def finding_lines(findings: list[Finding], view: View, group: str) -> Any:
    """An accordion of findings; `group` tells it from others of the page. Those the address names are open."""
    return dmc.Accordion(
        [_item(each, view, group) for each in findings],
        id={"type": "open", "group": group},
        value=view.opened([each.rule for each in findings]),
        variant="contained",
        multiple=True,
        chevronPosition="left",
    )


def findings_of_status(status: str, view: View) -> Any:
    """One row that opens to all findings of a status, None where there are none."""
    rows = _with_status(status, view)
    if not rows:
        return None
    group, opened = f"{_OF_STATUS}{status}", status if view.opened([status]) else None
    control = dmc.AccordionControl(f"{STATUS_TITLES[status]} ({len(rows)})")
    panel = _panel(group, status, finding_lines(rows, view, status) if opened else None)
    item = dmc.AccordionItem([control, panel], value=status)
    whole = dmc.Accordion([item], id={"type": "open", "group": group}, value=opened, variant="separated")
    return html.Div(whole, style={"marginTop": 16})


def _with_status(status: str, view: View) -> list[Finding]:
    wanted = view.state.get("category")
    return [
        each for each in view.report.findings if each.status == status and wanted in (None, each.category)
    ]


def _panel(group: str, row: str, body: Any) -> Any:
    return dmc.AccordionPanel(html.Div(body, id={"type": "row-body", "group": group, "row": row}))


def register_findings(app: Dash, store: Store) -> None:
    """Send what a row holds when it is opened."""

    @app.callback(
        Output({"type": "row-body", "group": MATCH, "row": ALL}, "children"),
        Input({"type": "open", "group": MATCH}, "value"),
        State({"type": "row-body", "group": MATCH, "row": ALL}, "id"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def fill(opened: list[str] | str | None, rows: list[dict[str, str]], search: str | None) -> Any:
        state = read_state(search)
        name = state.get("run", "")
        report = store.report(name)
        if not isinstance(report, Report):
            return [no_update] * len(rows)
        view = View(state, name, report, store)
        wanted = [opened] if isinstance(opened, str) else opened or []
        return [_opened(each, view) if each["row"] in wanted else no_update for each in rows]


def _opened(row: dict[str, str], view: View) -> Any:
    if row["group"].startswith(_OF_STATUS):
        return finding_lines(_with_status(row["row"], view), view, row["row"])
    return next((_body(each, view) for each in view.report.findings if each.rule == row["row"]), no_update)


def _item(finding: Finding, view: View, group: str) -> Any:
    badges = [dmc.Badge(finding.category, variant="light", color="gray", tt="none")]
    price = saves(finding)
    if price:
        badges.insert(0, dmc.Badge(price, variant="light", color="teal", tt="none"))
    elif finding.status == "failed" and finding.severity > 0:
        stake = f"{format_share(finding.severity)} of step time at stake"
        badges.insert(0, dmc.Badge(stake, variant="light", color="gray", tt="none"))
    if finding.proofs:
        # The last one counts: it was made with what was known by then.
        badges.append(
            dmc.Badge(f"fix {finding.proofs[-1].outcome}", variant="outline", color="gray", tt="none")
        )
    mark = dmc.Text(
        _MARKS.get(finding.status, "•"),
        c=_COLOURS.get(finding.status, "dimmed"),
        fw=700,
        span=True,
        **{"aria-hidden": "true"},
    )
    title = dmc.Group(
        [mark, dmc.Text(finding.title, fw=600, className="tpu-wrap", span=True)], gap="xs", wrap="nowrap"
    )
    head = dmc.Group([title, dmc.Group(badges, gap=6)], justify="space-between", gap="xs")
    body = _body(finding, view) if view.opened([finding.rule]) else None
    return dmc.AccordionItem(
        [dmc.AccordionControl(head), _panel(group, finding.rule, body)], value=finding.rule
    )


def _body(finding: Finding, view: View) -> Any:
    parts: list[Any] = [dmc.Text(finding.why, className="tpu-wrap", maw=900)]
    if finding.reason:
        parts.append(dmc.Text(finding.reason, c="dimmed", className="tpu-wrap"))
    if finding.savings:
        parts.append(dmc.Text(f"{_price(finding)} {shared_saving(finding)}", size="sm", mt="xs"))
    parts += [dmc.Text(each, size="sm", mt="xs", className="tpu-wrap") for each in host_sentences(finding)]
    parts += [dmc.Text(f"Tried: {each}", size="sm", mt="xs", className="tpu-wrap") for each in tried(finding)]
    # What is to be done before what it rests on.
    if finding.fix:
        parts += _fix(finding, view)
    if finding.evidence:
        parts.append(_evidence(finding, view))
    status = STATUS_TITLES.get(finding.status, finding.status)
    parts.append(
        dmc.Text(
            f"{status} · rule {finding.rule} · {finding.confidence} confidence",
            size="xs",
            c="dimmed",
            mt="sm",
        )
    )
    return html.Div(parts)


def _price(finding: Finding) -> str:
    savings = finding.savings
    if savings is None:
        return ""
    text = f"A fix {saves(finding)} ({method_title(savings)})"
    if savings.step_low_ms is None or savings.step_high_ms is None:
        return f"{text}."
    return f"{text}: the mean step would take {format_ms_range(savings.step_low_ms, savings.step_high_ms)}."


def _evidence(finding: Finding, view: View) -> Any:
    columns = ["Evidence", "Value", "Step", "Source", "Timeline"]
    shown = finding.evidence[:MAX_EVIDENCE]
    rows = [_evidence_cells(each, view) for each in shown]
    if view.report.environment["host_count"] > 1:
        columns.insert(1, "Host")
        rows = [[row[0], each.host or "all", *row[1:]] for each, row in zip(shown, rows, strict=True)]
    parts: list[Any] = [plain_table(f"evidence-{finding.rule}", columns, rows)]
    where = view.finding_in_timeline(finding)
    if where:
        parts.append(link("Show all of it in the timeline", where))
    if len(finding.evidence) > MAX_EVIDENCE:
        parts.append(dmc.Text(f"the first {MAX_EVIDENCE} of {len(finding.evidence)}", size="xs", c="dimmed"))
    return html.Div(parts)


def _evidence_cells(each: Evidence, view: View) -> list[Any]:
    value = (
        "" if each.value is None else number(amount(each.value, each.unit), each.value, each.unit or "number")
    )
    where: Any = ""
    if each.start_ns is not None:
        host = each.host or next((row.host for row in view.report.steps.per_step), "")
        where = link("show in timeline", view.timeline(host, each.start_ns, each.duration_ms or 0.0))
    return [each.text, value, "" if each.step is None else str(each.step), places_text(each.places), where]


def _fix(finding: Finding, view: View) -> list[Any]:
    fix = finding.fix
    if fix is None:
        return []
    parts: list[Any] = [
        dmc.Title("Fix", order=3, size="h5", mt="md"),
        dmc.Text(fix.text, className="tpu-wrap", maw=900),
    ]
    sides = [("Before", fix.before), ("After", fix.after)]
    blocks = [
        html.Div([dmc.Text(title, size="sm", fw=600), code(text, f"code-{finding.rule}-{title.lower()}")])
        for title, text in sides
        if text
    ]
    if blocks:
        parts.append(dmc.SimpleGrid(blocks, cols={"base": 1, "md": len(blocks)}, mt="xs"))
    if fix.doc:
        more = link("About this rule: limits, false positives, references", view.go("rule", id=finding.rule))
        parts.append(dmc.Text(more, mt="xs"))
    return parts
