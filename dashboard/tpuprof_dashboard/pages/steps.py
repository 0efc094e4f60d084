"""Every step, and any two of them side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import Input, Output, State, no_update

from tpuprof.compare.steps import compare_steps, usual_and_slowest
from tpuprof.parts import word_of
from tpuprof.units import format_ms
from tpuprof_dashboard.components.comparison import changed_parts, changed_times
from tpuprof_dashboard.components.layout import chart, empty, section
from tpuprof_dashboard.components.rows import rows_of
from tpuprof_dashboard.components.tables import GO, table
from tpuprof_dashboard.figures.bars import stacked_bars
from tpuprof_dashboard.pages.page import Page, View
from tpuprof_dashboard.state import integer, read_state, search_of
from tpuprof_dashboard.store import Failure, Loading
from tpuprof_dashboard.words import capital, part_title

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dash import Dash

    from tpuprof.compare.steps import StepPair
    from tpuprof.report.schema import StepRow, StepSummary
    from tpuprof.report.sections import OutlierRow, Steadiness
    from tpuprof_dashboard.store import Store

_FIRST, _SECOND = ("#0072B2", ""), ("#D55E00", "/")


def _render(view: View) -> list[Any]:
    summary = view.report.steps
    steps = summary.shown
    if not summary.all_hosts:
        advice = "Mark steps in the training loop: `with tpuprof.step(i):`, and capture again."
        return [empty("No steps", f"{capital(summary.note or 'no steps were found')}.", advice)]
    first, second = _chosen(view.state, view.report.steps)
    parts = [_compared(view, steps, first, second), _listed(view, summary)]
    parts.insert(1, _outliers(view, view.report.steadiness))
    return parts


def _chosen(state: Mapping[str, str], summary: StepSummary) -> tuple[int, int]:
    """Positions of the two steps: those in the URL, else the one nearest the median and the slowest."""
    steps = summary.shown
    usual, slowest = usual_and_slowest(steps, summary.median_ms)
    first, second = integer(state, "a"), integer(state, "b")
    known = range(len(steps))
    return first if first in known else usual, second if second in known else slowest  # type: ignore[return-value]


def _compared(view: View, steps: list[StepRow], first: int, second: int) -> Any:
    pair = compare_steps(steps[first], steps[second], list(view.report.breakdown))
    figure = stacked_bars(
        [part_title(each.name) for each in pair.parts],
        [
            (_title(steps, first), [each.first_ms for each in pair.parts], *_FIRST),
            (_title(steps, second), [each.second_ms for each in pair.parts], *_SECOND),
        ],
        "ms",
        view.template,
        mode="group",
    )
    rows = [
        {
            "part": part_title(each.name),
            "first ms": each.first_ms,
            "second ms": each.second_ms,
            "difference ms": each.difference_ms,
        }
        for each in pair.parts
    ]
    choose = dmc.Group(
        [_select("step-a", "First step", steps, first), _select("step-b", "Second step", steps, second)]
    )
    return section(
        "Two steps side by side",
        choose,
        dmc.Text(_difference(steps, first, second, pair), my="sm", fw=600, id="step-difference"),
        chart(figure, "step-pair", "Parts of the two steps; the table below has them"),
        table("two-steps", rows),
        note="Unasked: the step nearest the median against the slowest.",
    )


def _difference(steps: list[StepRow], first: int, second: int, pair: StepPair) -> str:
    one, other = steps[first], steps[second]
    sides = f"{_title(steps, first)} took {format_ms(one.wall_ms)}, {_title(steps, second)} {format_ms(other.wall_ms)}"
    text = capital(sides)
    if first == second or pair.grown is None:
        return f"{text}."
    word = "longer" if pair.difference_ms > 0 else "shorter"
    most = f"{part_title(pair.grown.name)} ({format_ms(abs(pair.grown.difference_ms))})"
    return f"{text}: {format_ms(abs(pair.difference_ms))} {word}, mostly {most}."


def _title(steps: list[StepRow], row: int) -> str:
    step = steps[row]
    return f"step {step.index}" + (f" of {step.host}" if len({each.host for each in steps}) > 1 else "")


def _select(select_id: str, label: str, steps: list[StepRow], chosen: int) -> Any:
    data = [
        {"value": str(row), "label": f"{_title(steps, row)} ({format_ms(each.wall_ms)})"}
        for row, each in enumerate(steps)
    ]
    return dmc.Select(
        id=select_id,
        label=label,
        data=data,
        value=str(chosen),
        searchable=True,
        allowDeselect=False,
        w=280,
        limit=500,
    )


def _listed(view: View, summary: StepSummary) -> Any:
    """The table of steps; of a long run it says how many those are."""
    if not summary.left_out:
        return section("All steps", _all(view, summary.shown))
    note = f"{len(summary.shown):,} of {summary.all_hosts:,} steps: stretches of the whole run, and the slowest steps."
    return section("Steps", _all(view, summary.shown), note=note)


def _all(view: View, steps: list[StepRow]) -> Any:
    rows = [
        {
            "step": each.index,
            "host": each.host,
            "wall ms": each.wall_ms,
            "bound by": word_of(each.bound).title,
            **{part_title(name): ms for name, ms in each.breakdown_ms.items()},
            "hidden tracing": each.tracing_hidden_ms,
            GO: view.timeline(each.host, each.start_ns, each.wall_ms, mark=False),
        }
        for each in steps
    ]
    return table("steps", rows, go_title="timeline")


def _outliers(view: View, steadiness: Steadiness) -> Any:
    rows = [
        {**row, "reasons": _reasons(each), GO: view.timeline(each.host, each.start_ns, each.wall_ms)}
        for each, row in zip(
            steadiness.outliers, rows_of(steadiness.outliers, ("start_ns", "earlier_ms")), strict=True
        )
    ]
    drift = steadiness.drift_ms
    text = (
        "No trend over the run."
        if drift is None
        else f"From the first step to the last, steps changed by {drift:+,.3f} ms."
    )
    found = (
        table("outliers", rows, go_title="timeline")
        if rows
        else empty("No outliers", "No step stands out from the others.")
    )
    ratio = steadiness.profiler_ratio
    effect = (
        "What capturing itself costs is unavailable: that takes three steps of the capture and three from before it "
        "that compiled nothing."
        if ratio is None
        else f"A step under capture took {ratio:,.2f} times one before it."
    )
    return section("Steadiness", dmc.Text(f"{text} {effect}", mb="xs", id="steadiness"), found)


def _reasons(row: OutlierRow) -> str:
    waits = [f"work of earlier steps {format_ms(row.earlier_ms)}"] if row.earlier_ms else []
    return ", ".join([*waits, *(f"{part_title(name)} +{format_ms(ms)}" for name, ms in row.reasons.items())])


def _register(app: Dash, store: Store) -> None:
    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("step-a", "value"),
        Input("step-b", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def choose(first: str | None, second: str | None, search: str | None) -> Any:
        state = read_state(search)
        report = store.report(state.get("run", ""))
        if state.get("page") != "steps" or not first or not second or isinstance(report, (Failure, Loading)):
            return no_update
        shown = tuple(map(str, _chosen(state, report.steps)))
        return no_update if (first, second) == shown else search_of(state, a=first, b=second)


PAGE = Page(
    "steps",
    "Steps",
    "How steps differ, and why.",
    _render,
    keys=("a", "b"),
    register=_register,
    changes=(changed_times, changed_parts),
    signals=(
        "steps",
        "step_source",
        "step_count",
        "typical_steps",
        "typical_parts",
        "idle_by_step",
        "steadiness",
        "phases",
    ),
)
