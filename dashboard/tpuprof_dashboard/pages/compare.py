"""Two runs side by side: whether they compare at all first, then how their figures differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import Input, Output, State, dcc, html, no_update

from tpuprof.units import format_ms
from tpuprof_dashboard.components.layout import chart, empty, section
from tpuprof_dashboard.components.tables import table
from tpuprof_dashboard.figures.bars import stacked_bars
from tpuprof_dashboard.pages.page import Page, View
from tpuprof_dashboard.shell import choices
from tpuprof_dashboard.state import read_state, search_of
from tpuprof_dashboard.store import Failure, Loading
from tpuprof_dashboard.words import STATUS_TITLES, bound_title, part_title

if TYPE_CHECKING:
    from dash import Dash

    from tpuprof.report.schema import Report
    from tpuprof_dashboard.store import Store

_BASE, _CANDIDATE = ("#0072B2", ""), ("#D55E00", "/")
# Facts of a capture, not of the training it captured.
_INCIDENTAL = ("graphs.", "capture.", "warnings", "schema", "started", "created", "process")
# Facts whose difference makes runs unlike, so that their times cannot be held against each other.
_DECISIVE = ("device_type", "device_count", "host_count")


def _render(view: View) -> list[Any]:
    others = [name for name in view.store.names() if name != view.name]
    if not others:
        reason = "Only one run is open. Start the dashboard with several paths, or open a trace above."
        return [empty("Nothing to compare with", reason)]
    wanted = view.state.get("with", "")
    choose = dmc.Select(
        id="compare-with",
        label="Compare with",
        data=choices(others),
        value=wanted if wanted in others else None,
        w=460,
        searchable=True,
        placeholder="choose a run",
        description=f"The base is {view.name}.",
    )
    if wanted not in others:
        return [choose]
    other = view.store.report(wanted)
    if isinstance(other, Loading):
        # The page asks again until the other run has been read.
        wait = dcc.Interval(id="compare-poll", interval=700)
        return [choose, html.Div([dmc.Skeleton(height=height, mt="md") for height in (40, 160)]), wait]
    if isinstance(other, Failure):
        return [choose, dmc.Alert(other.message, color="red", mt="md")]
    return [choose, html.Div(_compared(view, view.report, other), id="comparison")]


def _compared(view: View, base: Report, candidate: Report) -> list[Any]:
    return [
        _config(base, candidate),
        _headline(base, candidate),
        _parts(view, base, candidate),
        _findings(base, candidate),
    ]


def _config(base: Report, candidate: Report) -> Any:
    before, after = _settings(base), _settings(candidate)
    rows = [
        {"setting": key, "base": before.get(key, ""), "candidate": after.get(key, "")}
        for key in dict.fromkeys([*before, *after])
        if before.get(key) != after.get(key)
    ]
    unlike = [row["setting"] for row in rows if row["setting"] in _DECISIVE]
    parts: list[Any] = []
    if unlike:
        text = f"They differ in {', '.join(unlike)}, so their times cannot be held against each other."
        parts.append(dmc.Alert(text, title="Unlike runs", color="red", mb="sm", id="unlike"))
    parts.append(
        table("settings", rows) if rows else empty("No difference", "Both runs state the same settings.")
    )
    return section(
        "What differs in how they ran",
        *parts,
        note="Only settings that differ; those of the runs' environment.",
    )


def _settings(report: Report) -> dict[str, str]:
    run = report.environment.get("run") or {}
    plain = {**{k: v for k, v in report.environment.items() if k != "run"}, **_flat(run)}
    plain["steps told from"] = report.steps.method
    plain["predicted"] = report.predicted
    return {
        key: str(value)
        for key, value in plain.items()
        if value is not None and not key.startswith(_INCIDENTAL)
    }


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, each in value.items():
        if isinstance(each, dict):
            found |= _flat(each, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = each
    return found


def _headline(base: Report, candidate: Report) -> Any:
    rows: list[dict[str, Any]] = [
        {"": "verdict", "base": base.verdict.sentence, "candidate": candidate.verdict.sentence},
        {
            "": "bound by",
            "base": bound_title(base.verdict.bound),
            "candidate": bound_title(candidate.verdict.bound),
        },
        {"": "median step", "base": _ms(base.steps.median_ms), "candidate": _ms(candidate.steps.median_ms)},
        {"": "p95 step", "base": _ms(base.steps.p95_ms), "candidate": _ms(candidate.steps.p95_ms)},
        {"": "steps", "base": base.steps.count, "candidate": candidate.steps.count},
        {"": "compiles", "base": len(base.compiles), "candidate": len(candidate.compiles)},
    ]
    body = [
        dmc.TableTr(
            [
                dmc.TableTd(str(value), style={"whiteSpace": "nowrap"} if not key else None)
                for key, value in row.items()
            ]
        )
        for row in rows
    ]
    head = dmc.TableThead(dmc.TableTr([dmc.TableTh(name) for name in rows[0]]))
    note = (
        "Runs of one script differ by some percent from process to process; a small difference says nothing."
    )
    return section("Side by side", dmc.Table([head, dmc.TableTbody(body)], withTableBorder=True), note=note)


def _ms(value: float | None) -> str:
    return "unavailable" if value is None else format_ms(value)


def _parts(view: View, base: Report, candidate: Report) -> Any:
    names = [
        name
        for name in dict.fromkeys([*base.breakdown, *candidate.breakdown])
        if any(name in each.breakdown and each.breakdown[name].share for each in (base, candidate))
    ]
    if not names:
        return section(
            "Where a step's time goes", empty("No steps", "One of the runs has no steps to compare.")
        )

    def column(report: Report) -> list[float]:
        return [report.breakdown[name].ms_per_step if name in report.breakdown else 0.0 for name in names]

    before, after = column(base), column(candidate)
    rows = [
        {
            "part": part_title(name),
            "base ms a step": one,
            "candidate ms a step": other,
            "difference ms": other - one,
        }
        for name, one, other in zip(names, before, after, strict=True)
    ]
    figure = stacked_bars(
        [part_title(name) for name in names],
        [("base", before, *_BASE), ("candidate", after, *_CANDIDATE)],
        "ms a step",
        view.template,
        mode="group",
    )
    label = "Parts of a mean step in both runs; the table below has them"
    return section(
        "Where a step's time goes", chart(figure, "compare-parts", label), table("compare-parts", rows)
    )


def _findings(base: Report, candidate: Report) -> Any:
    before = {each.rule: each for each in base.findings}
    after = {each.rule: each for each in candidate.findings}
    rows = []
    for rule in dict.fromkeys([*before, *after]):
        one, other = before.get(rule), after.get(rule)
        if (one.status if one else "") != (other.status if other else ""):
            rows.append(
                {
                    "rule": rule,
                    "title": (other or one).title if (other or one) else "",  # type: ignore[union-attr]
                    "base": STATUS_TITLES.get(one.status, one.status) if one else "",
                    "candidate": STATUS_TITLES.get(other.status, other.status) if other else "",
                }
            )
    if not rows:
        return section("Findings", empty("No change", "No finding is new or gone."))
    return section("Findings that changed", table("compare-findings", rows))


def _register(app: Dash, store: Store) -> None:
    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("compare-with", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def choose(name: str | None, search: str | None) -> Any:
        state = read_state(search)
        return search_of(state, **{"with": name}) if name and name != state.get("with") else no_update

    @app.callback(
        Output("shown", "data", allow_duplicate=True),
        Output("poll", "disabled", allow_duplicate=True),
        Input("compare-poll", "n_intervals"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def again(_ticks: int | None, search: str | None) -> Any:
        """Have the page made anew once the other run has been read."""
        ready = not isinstance(store.report(read_state(search).get("with", "")), Loading)
        return (None, False) if ready else (no_update, no_update)


PAGE = Page(
    "compare",
    "Compare",
    "Whether another run is better, and why.",
    _render,
    keys=("with",),
    register=_register,
)
