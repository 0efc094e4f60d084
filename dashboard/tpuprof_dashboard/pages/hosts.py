"""Hosts side by side: their steps, who is late, and who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof_dashboard.components.layout import empty, section
from tpuprof_dashboard.components.rows import rows_of
from tpuprof_dashboard.components.tables import table
from tpuprof_dashboard.pages.page import Page, View

if TYPE_CHECKING:
    from tpuprof.report.sections import Hosts


def _render(view: View) -> list[Any]:
    count = view.report.environment["host_count"]
    told = view.report.hosts
    parts: list[Any] = []
    if count == 1:
        advice = (
            "Capture all hosts of a job into one run folder: `tpuprof capture --addr HOST1:PORT,HOST2:PORT`."
        )
        parts.append(empty("One host", "The run has one host, so there is none to compare it with.", advice))
    if not told.hosts:
        return [*parts, section("Hosts", empty("No hosts", "No host of this run marks steps."))]
    parts.append(section("Hosts", table("hosts", rows_of(told.hosts)), note=_note(told)))
    if told.late_steps:
        parts.append(section("Late steps", table("late-steps", rows_of(told.late_steps))))
    return parts


def _note(told: Hosts) -> str:
    late = (
        f"{told.straggler} is late, by {told.lag_ms_per_step:,.3f} ms a step."
        if told.straggler and told.lag_ms_per_step is not None
        else ""
    )
    return " ".join(
        filter(None, [late, f"Lateness is read from {told.method}." if told.method else "", told.clocks])
    )


PAGE = Page("hosts", "Hosts", "Which host is late, and who waits for it.", _render)
