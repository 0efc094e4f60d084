"""What a page's figures are made from: the signals that it shows, and the rules that decide by each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import html

from tpuprof.rules.registry import all_rules
from tpuprof.signals import Signals, signal_units
from tpuprof_dashboard.components.layout import link, plain_table
from tpuprof_dashboard.words import STATUS_TITLES

if TYPE_CHECKING:
    from tpuprof.rules.base import Rule
    from tpuprof_dashboard.pages.page import Page, View

_TITLE = "What these figures are made from"


def made_from(view: View, page: Page) -> list[Any]:
    """A list to unfold at the end of a page; nothing for a page that shows no signals."""
    if not page.signals:
        return []
    found = {each.rule: each.status for each in view.report.findings}
    rows = [_row(view, name, found) for name in page.signals]
    note = (
        "A signal is a number or a table of the run with one definition. Rules read signals alone; how the verdict "
        "came about is on the first page."
    )
    inside = [
        dmc.Text(note, size="sm", my="xs"),
        plain_table("made-from", ("signal", "unit", "what it is", "rules that decide by it"), rows),
    ]
    return [html.Details([html.Summary(_TITLE), *inside], id="made-from", style={"marginTop": 32})]


def _row(view: View, name: str, found: dict[str, str]) -> list[Any]:
    definition = " ".join((getattr(Signals, name).__doc__ or "").split())
    rules = [_rule(view, rule, found) for rule in all_rules() if name in rule.reads]
    unit = html.Span(signal_units()[name], style={"whiteSpace": "nowrap"})
    return [dmc.Code(name), unit, definition, dmc.Group(rules, gap="sm") if rules else "none"]


def _rule(view: View, rule: Rule, found: dict[str, str]) -> Any:
    """A rule, what it said of this run, and where that stands."""
    status = found.get(rule.id, "")
    said = STATUS_TITLES.get(status, status).lower()
    return link(f"{rule.id} ({said})" if said else rule.id, view.go("rule", id=rule.id))
