"""Hosts side by side: their steps, who is late, and who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.render.finding_hosts import finding_rows
from tpuprof_dashboard.components.layout import chart, empty, section
from tpuprof_dashboard.components.rows import rows_of
from tpuprof_dashboard.components.tables import table
from tpuprof_dashboard.figures.bars import MAX_ROWS, stacked_bars
from tpuprof_dashboard.figures.heat_map import heat_map
from tpuprof_dashboard.pages.page import Page, View
from tpuprof_dashboard.words import capital

if TYPE_CHECKING:
    from tpuprof.report.pod import Pod
    from tpuprof.report.sections import Hosts

# (colour, hatching) of hosts in turn; the legend names them.
_STYLES = (("#0072B2", ""), ("#D55E00", "/"), ("#009E73", "x"), ("#CC79A7", "."))


def _render(view: View) -> list[Any]:
    count = view.report.environment["host_count"]
    told = view.report.hosts
    parts: list[Any] = []
    if count == 1:
        advice = (
            "Capture all hosts of a job into one run folder: `tpuprof capture --addr HOST1:PORT,HOST2:PORT`."
        )
        parts.append(empty("One host", "The run has one host, so there is none to compare it with.", advice))
    if view.report.pod is not None:
        parts += _pod(view, view.report.pod)
    if not told.hosts:
        return [*parts, section("Hosts", empty("No hosts", "No host of this run marks steps."))]
    parts.append(section("Hosts", table("hosts", rows_of(told.hosts)), note=_note(told)))
    if any(each.waited_ms for each in told.late_steps):
        parts.append(_late(view, told))
    return parts


def _pod(view: View, pod: Pod) -> list[Any]:
    """Groups of like hosts, stragglers, and who was late when."""
    note = f"{pod.analyzed:,} of {pod.hosts:,} hosts. {pod.sampled}"
    parts = [section("Hosts that are alike", table("host-groups", rows_of(pod.groups)), note=note)]
    by_host = finding_rows(view.report)
    if by_host:
        text = "On which hosts a rule failed, at which lines, and what a fix saves on single hosts; none is a mean."
        parts.append(section("Findings by host", table("findings-by-host", by_host), note=text))
    if pod.stragglers:
        text = "Behind the host in the middle, at the collectives where all meet; by step times where there are none."
        parts.append(section("Stragglers", table("stragglers", rows_of(pod.stragglers)), note=text))
    if pod.heat_map.hosts:
        width = pod.heat_map.steps_per_column
        text = "How late each host is in each step." + (
            f" A column is the latest of {width} steps." if width > 1 else ""
        )
        label = "Lateness of each host by step; the tables above name the stragglers"
        drawn = chart(heat_map(pod.heat_map, view.template), "hosts-by-steps", label)
        parts.append(section("Hosts by steps", drawn, note=text))
    return parts


def _late(view: View, told: Hosts) -> Any:
    names = [each.host for each in told.hosts]
    figure = stacked_bars(
        [f"step {each.step}" for each in told.late_steps],
        [
            (
                name,
                [each.waited_ms.get(name, 0.0) for each in told.late_steps],
                *_STYLES[number % len(_STYLES)],
            )
            for number, name in enumerate(names)
        ],
        "ms waited for the last host",
        view.template,
        mode="group",
    )
    note = "Who came last in each step, and how long each host waited for it."
    if len(told.late_steps) > MAX_ROWS:
        note += f" The first {MAX_ROWS} of {len(told.late_steps)} are drawn."
    label = "What each host waited in each step; the table below has it"
    return section(
        "Late steps",
        chart(figure, "late-steps", label),
        table("late-steps", rows_of(told.late_steps)),
        note=note,
    )


def _note(told: Hosts) -> str:
    late = (
        f"{told.straggler} is late, by {told.lag_ms_per_step:,.3f} ms per step."
        if told.straggler and told.lag_ms_per_step is not None
        else ""
    )
    return " ".join(
        filter(
            None, [late, f"Lateness is read from {told.method}." if told.method else "", _ended(told.clocks)]
        )
    )


def _ended(text: str) -> str:
    return f"{capital(text)}." if text else ""


PAGE = Page(
    "hosts",
    "Hosts",
    "Which host is late, and who waits for it.",
    _render,
    signals=(
        "host_pace",
        "slowest_host_steps",
        "chips_per_host",
    ),
)
