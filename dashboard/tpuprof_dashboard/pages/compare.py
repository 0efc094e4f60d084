"""Runs side by side: whether they compare at all first, then what changed beyond noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import Input, Output, State, html, no_update

from tpuprof_dashboard.components.asking import asked, asking, register_asking
from tpuprof_dashboard.components.comparison import comparison_sections, summary
from tpuprof_dashboard.components.layout import empty, section
from tpuprof_dashboard.components.tables import table
from tpuprof_dashboard.pages.page import Page, View
from tpuprof_dashboard.shell import POLL_MS, choices
from tpuprof_dashboard.state import integer, names_in, names_text, read_state, search_of
from tpuprof_dashboard.store import Failure, Loading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dash import Dash

    from tpuprof.compare.diff import Comparison
    from tpuprof.report.schema import Report
    from tpuprof_dashboard.store import Store

# Runs compared with the base at a time: more do not fit one table's sight.
MAX_CANDIDATES = 6


def _render(view: View) -> list[Any]:
    labels = view.store.labels()
    others = [name for name in labels if name != view.name]
    if not others:
        reason = "Only one run is open. Start the dashboard with several paths, or open a trace above."
        return [empty("Nothing to compare with", reason)]
    wanted = _wanted(view.state, view.name, view.store)
    choose = dmc.MultiSelect(
        id="compare-with",
        label="Compare with",
        data=choices({name: labels[name] for name in others}),
        value=wanted,
        maw=760,
        searchable=True,
        clearable=True,
        maxValues=MAX_CANDIDATES,
        placeholder="" if wanted else "choose one or more runs",
        description=f"The base is {labels.get(view.name, view.name)}, the run chosen above.",
    )
    found = {name: view.store.comparison(view.name, name) for name in wanted}
    if any(isinstance(each, Loading) for each in found.values()):
        # The page asks again until the other runs have been read.
        wait = asking("compare-poll", POLL_MS)
        return [choose, html.Div([dmc.Skeleton(height=height, mt="md") for height in (40, 160)]), *wait]
    failed = [
        dmc.Alert(each.message, color="red", mt="md") for each in found.values() if isinstance(each, Failure)
    ]
    ready = [(name, each) for name, each in found.items() if not isinstance(each, (Failure, Loading))]
    return [choose, *failed, html.Div(_compared(view, ready), id="comparison") if ready else None]


def _wanted(state: Mapping[str, str], base: str, store: Store) -> list[str]:
    """The runs the URL names; the only other one where it names none."""
    others = [name for name in store.names() if name != base]
    named = [name for name in names_in(state, "with") if name in others]
    return named[:MAX_CANDIDATES] or (others if len(others) == 1 else [])


def _compared(view: View, ready: list[tuple[str, Comparison]]) -> list[Any]:
    chosen = integer(view.state, "show") or 0
    chosen = chosen if 0 <= chosen < len(ready) else 0
    labels = view.store.labels()
    parts = []
    if len(ready) > 1:
        rows = [
            (labels.get(name, name), found, view.here(show=str(number)))
            for number, (name, found) in enumerate(ready)
        ]
        parts = [
            summary(rows),
            dmc.Title(
                f"{rows[chosen][0]} against the base", order=2, size="h3", mt="xl", className="tpu-wrap"
            ),
        ]
    name, found = ready[chosen]
    other = view.store.report(name)
    recorded = [] if isinstance(other, (Failure, Loading)) else [_recorded(view.report, other)]
    return [*parts, *comparison_sections(found, view.template), *recorded]


def _recorded(base: Report, candidate: Report) -> Any:
    """Every recorded fact of the two runs' environment that differs, for what the comparison did not weigh."""
    before, after = (_flat(each.environment) for each in (base, candidate))
    rows = [
        {"setting": key, "base": before.get(key, ""), "candidate": after.get(key, "")}
        for key in dict.fromkeys([*before, *after])
        if before.get(key) != after.get(key)
    ]
    title = "Everything recorded that differs"
    if not rows:
        return section(title, empty("Nothing", "Both runs state the same of their environment."))
    return section(
        title, table("settings", rows), note="From the runs' environment, as recorded and unweighed."
    )


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, each in value.items():
        if isinstance(each, dict):
            found |= _flat(each, f"{prefix}{key}.")
        elif each is not None:
            found[f"{prefix}{key}"] = str(each)
    return found


def _register(app: Dash, store: Store) -> None:
    register_asking(app, "compare-poll")

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("compare-with", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def choose(names: list[str] | None, search: str | None) -> Any:
        state = read_state(search)
        if (
            names is None
            or state.get("page") != "compare"
            or names == _wanted(state, state.get("run", ""), store)
        ):
            return no_update
        return search_of(state, **{"with": names_text(names), "show": None})

    @app.callback(
        Output("shown", "data", allow_duplicate=True),
        Output("poll", "disabled", allow_duplicate=True),
        asked("compare-poll"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def again(_ticks: int | None, search: str | None) -> Any:
        """Have the page made again once the other runs have been read and compared."""
        state = read_state(search)
        base = state.get("run", "")
        waiting = [
            name for name in _wanted(state, base, store) if isinstance(store.comparison(base, name), Loading)
        ]
        return (no_update, no_update) if waiting else (None, False)


PAGE = Page(
    "compare",
    "Compare",
    "Whether other runs are better, and why.",
    _render,
    keys=("with", "show"),
    register=_register,
    compares=False,
)
