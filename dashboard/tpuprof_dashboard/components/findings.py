"""Findings as rows that open to why, evidence and fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import html

from tpuprof.units import format_ms, format_share
from tpuprof_dashboard.components.layout import code, link
from tpuprof_dashboard.words import STATUS_TITLES

if TYPE_CHECKING:
    from tpuprof.report.schema import Evidence, Finding, Report, Savings
    from tpuprof_dashboard.pages.page import View

# Evidence shown of one finding (rows); the Report's JSON has all.
MAX_EVIDENCE = 50
_METHODS = {
    "measured": "measured in this trace",
    "counterfactual": "simulated without it",
    "bound": "at most, by a bound",
}
# Marks that tell a status without colour.
_MARKS = {"failed": "▲", "passed": "✓", "not_applicable": "–", "unavailable": "?", "error": "!"}
_COLOURS = {"failed": "orange", "passed": "green", "error": "red"}


def failed_findings(report: Report) -> list[Finding]:
    """Findings to fix, in the Report's order: what matters most first."""
    return [each for each in report.findings if each.status == "failed"]


def savings_text(savings: Savings | None) -> str:
    """`saves 12 to 18 ms a step`, empty where it is not priced."""
    if savings is None:
        return ""
    low, high = format_ms(savings.low), format_ms(savings.high)
    return f"saves {low} a step" if low == high else f"saves {low} to {high} a step"


def finding_lines(findings: list[Finding], view: View) -> Any:
    """An accordion of findings."""
    return dmc.Accordion(
        [_item(each, view) for each in findings], variant="contained", multiple=True, chevronPosition="left"
    )


def _item(finding: Finding, view: View) -> Any:
    badges = [dmc.Badge(finding.category, variant="light", color="gray", tt="none")]
    price = savings_text(finding.savings)
    if price:
        badges.insert(0, dmc.Badge(price, variant="light", color="teal", tt="none"))
    elif finding.status == "failed":
        stake = f"{format_share(finding.severity)} of step time at stake"
        badges.insert(0, dmc.Badge(stake, variant="light", color="gray", tt="none"))
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
    return dmc.AccordionItem(
        [dmc.AccordionControl(head), dmc.AccordionPanel(_body(finding, view))], value=f"{finding.rule}"
    )


def _body(finding: Finding, view: View) -> Any:
    parts: list[Any] = [dmc.Text(finding.why, className="tpu-wrap", maw=900)]
    if finding.reason:
        parts.append(dmc.Text(finding.reason, c="dimmed", className="tpu-wrap"))
    if finding.savings:
        parts.append(dmc.Text(_price(finding, view), size="sm", mt="xs"))
    if finding.evidence:
        parts.append(_evidence(finding, view))
    if finding.fix:
        parts += _fix(finding, view)
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


def _price(finding: Finding, view: View) -> str:
    savings, median = finding.savings, view.report.steps.median_ms
    if savings is None:
        return ""
    text = f"A fix {savings_text(savings)} ({_METHODS.get(savings.method, savings.method)})"
    if median is None:
        return f"{text}."
    after = f"{format_ms(max(median - savings.high, 0))} to {format_ms(max(median - savings.low, 0))}"
    return f"{text}: the median step of {format_ms(median)} would take {after}."


def _evidence(finding: Finding, view: View) -> Any:
    head = dmc.TableThead(
        dmc.TableTr([dmc.TableTh(name) for name in ("Evidence", "Value", "Step", "Source", "")])
    )
    rows = [dmc.TableTr(_evidence_cells(each, view)) for each in finding.evidence[:MAX_EVIDENCE]]
    parts: list[Any] = [dmc.Table([head, dmc.TableTbody(rows)], withTableBorder=True, fz="sm", mt="sm")]
    if len(finding.evidence) > MAX_EVIDENCE:
        parts.append(dmc.Text(f"the first {MAX_EVIDENCE} of {len(finding.evidence)}", size="xs", c="dimmed"))
    return html.Div(parts)


def _evidence_cells(each: Evidence, view: View) -> list[Any]:
    value = "" if each.value is None else f"{each.value:,.4g} {each.unit}".strip()
    where: Any = ""
    if each.start_ns is not None:
        host = each.host or next((row.host for row in view.report.steps.per_step), "")
        where = link("show in timeline", view.timeline(host, each.start_ns, each.duration_ms or 0.0))
    texts = [each.text, value, "" if each.step is None else str(each.step), each.source]
    return [*(dmc.TableTd(text, className="tpu-wrap") for text in texts), dmc.TableTd(where)]


def _fix(finding: Finding, view: View) -> list[Any]:
    fix = finding.fix
    if fix is None:
        return []
    parts: list[Any] = [dmc.Title("Fix", order=5, mt="md"), dmc.Text(fix.text, className="tpu-wrap", maw=900)]
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
