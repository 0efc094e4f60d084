"""One rule's page: what it detects, why that costs time, how to fix it; without one named, all rules."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc

from tpuprof.rules.registry import all_rules
from tpuprof_dashboard.components.layout import empty, link, section
from tpuprof_dashboard.components.rule_text import rule_text
from tpuprof_dashboard.components.tables import GO, table
from tpuprof_dashboard.pages.page import Page, View
from tpuprof_dashboard.words import STATUS_TITLES


def _render(view: View) -> list[Any]:
    wanted = view.state.get("id", "")
    if not wanted:
        return [_all(view)]
    back = link("All rules", view.here(id=None))
    rule = next((each for each in all_rules() if each.id == wanted), None)
    if rule is None:
        return [empty("No such rule", f"This tpuprof has no rule {wanted!r}."), back]
    finding = next((each for each in view.report.findings if each.rule == rule.id), None)
    said = []
    if finding is not None:
        status = STATUS_TITLES.get(finding.status, finding.status)
        said = [dmc.Text(f"In this run: {status}. {finding.title}.", mt="sm", className="tpu-wrap")]
    links = dmc.Group([link("This run's findings", view.go("findings")), back], mt=4)
    return rule_text(rule, *said, links)


def _all(view: View) -> Any:
    status = {each.rule: STATUS_TITLES.get(each.status, each.status) for each in view.report.findings}
    rows = [
        {
            "rule": each.id,
            "category": each.category,
            "in this run": status.get(each.id, ""),
            "what it detects": each.page.summary,
            GO: view.here(id=each.id),
        }
        for each in all_rules()
    ]
    return section("All rules", table("rules", rows, go_title="read"))


PAGE = Page(
    "rule",
    "Rules",
    "What tpuprof looks for, and what to do about it.",
    _render,
    keys=("id",),
    in_menu=False,
    compares=False,
)
