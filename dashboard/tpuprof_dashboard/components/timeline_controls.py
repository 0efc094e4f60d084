"""What stands around the timeline: host, step and zoom controls for mouse and keyboard, and the choice of lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import Input, Output, State, ctx, html, no_update

from tpuprof.render.content import failed_findings
from tpuprof_dashboard.all_hosts import ALL_HOSTS
from tpuprof_dashboard.components.layout import current, empty, link
from tpuprof_dashboard.state import read_state, search_of
from tpuprof_dashboard.timeline_view import chosen_lanes, pinned_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dash import Dash

    from tpuprof.report.schema import Report, StepRow
    from tpuprof_dashboard.pages.page import View
    from tpuprof_dashboard.reading import Details, HostDetails

MOVES = (("in", "Zoom in"), ("out", "Zoom out"), ("left", "Earlier"), ("right", "Later"), ("all", "All"))


def steps_of(report: Report, host: HostDetails) -> list[tuple[int, StepRow]]:
    """The steps to go to, each with by how much its times are moved (ps): of all hosts, those of the first one."""
    first = next((each.host for each in report.steps.per_step if host.shift_of(each.host) is not None), "")
    shift = host.shift_of(first) or 0
    return [(shift, each) for each in report.steps.per_step if each.host == first]


def controls(view: View, details: Details, host: HostDetails) -> Any:
    """Buttons that move the window, the choice of a step, and of a host where there are several."""
    buttons = [
        dmc.Button(title, id=f"move-{key}", size="compact-sm", variant="default") for key, title in MOVES
    ]
    steps = steps_of(view.report, host)
    parts: list[Any] = [dmc.Group(buttons, gap=4)]
    if steps:
        data = [{"value": str(row), "label": f"step {each.index}"} for row, (_, each) in enumerate(steps)]
        parts.append(
            dmc.Select(
                id="go-step",
                data=data,
                placeholder="Go to a step",
                searchable=True,
                size="xs",
                w=160,
                limit=200,
            )
        )
    if len(details.hosts) > 1:
        parts += [_host_link(view, name, host) for name in details.hosts]
        # Traces say when they began, a saved report does not.
        parts += [_host_link(view, ALL_HOSTS, host)] if details.run is not None else []
    return dmc.Group(parts, gap="md", mb="xs")


def _host_link(view: View, name: str, shown: HostDetails) -> Any:
    """The way to a host, or to all of them, whose times are others."""
    other_clock = ALL_HOSTS in (name, shown.name)
    window = dict.fromkeys(("start", "end", "mark"), None) if other_clock else {}
    return link(
        "All hosts" if name == ALL_HOSTS else name,
        view.here(host=name, lanes=None, pin=None, event=None, finding=None, **window),
        fw=700 if name == shown.name else 400,
        **current(name == shown.name),
    )


def finding_chips(view: View) -> Any:
    """The findings that can be seen in the run: choosing one marks all its spans and zooms to them."""
    shown = [(each, view.finding_in_timeline(each)) for each in failed_findings(view.report)]
    links = [
        link(
            each.title,
            where,
            fw=700 if view.state.get("finding") == each.rule else 400,
            className="tpu-chip",
            **current(view.state.get("finding") == each.rule),
        )
        for each, where in shown
        if where is not None
    ]
    if not links:
        return None
    title = dmc.Text("Findings seen here", size="sm", c="dimmed")
    return html.Nav(dmc.Group([title, *links], gap="xs", mb="xs"), **{"aria-label": "Findings"})


def lane_choice(host: HostDetails, state: Mapping[str, str]) -> Any:
    """The lanes of a host to choose from, and those that stay on top."""
    data = [{"value": each.key, "label": f"{each.title} ({each.events:,})"} for each in host.lanes]
    shared = {"data": data, "searchable": True, "clearable": True, "maxDropdownHeight": 320, "limit": 200}
    chosen = dmc.MultiSelect(
        id="lanes",
        value=[each.key for each in chosen_lanes(host, state.get("lanes"))],
        label="Lanes",
        description="Threads and device queues to draw; none chosen draws the usual ones.",
        **shared,
    )
    pinned = dmc.MultiSelect(
        id="pinned-lanes",
        value=[key for key in pinned_in(state) if key in {each["value"] for each in data}],
        label="Pinned lanes",
        description="Drawn on top, in this order, whichever lanes are chosen.",
        **shared,
    )
    return dmc.SimpleGrid([chosen, pinned], cols={"base": 1, "md": 2})


def register_lane_choice(app: Dash, host_of: Callable[[Mapping[str, str]], HostDetails | None]) -> None:
    """Put the lanes that are chosen and pinned into the address."""

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("lanes", "value"),
        Input("pinned-lanes", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def choose(keys: list[str] | None, pinned: list[str] | None, search: str | None) -> Any:
        state = read_state(search)
        host = host_of(state)
        if host is None:
            return no_update
        if ctx.triggered_id == "pinned-lanes":
            return (
                search_of(state, pin=",".join(pinned or []) or None)
                if pinned != pinned_in(state)
                else no_update
            )
        usual = [each.key for each in host.usual_lanes()]
        wanted = None if not keys or set(keys) == set(usual) else ",".join(keys)
        return search_of(state, lanes=wanted) if wanted != state.get("lanes") else no_update

    @app.callback(
        Output("lanes", "value"),
        Output("pinned-lanes", "value"),
        Input("url", "search"),
        State("lanes", "value"),
        State("pinned-lanes", "value"),
        prevent_initial_call=True,
    )
    def chosen_elsewhere(search: str | None, lanes: list[str] | None, pinned: list[str] | None) -> Any:
        """Links choose and pin lanes too."""
        state = read_state(search)
        host = host_of(state)
        if state.get("page") != "timeline" or host is None:
            return no_update, no_update
        wanted = [each.key for each in chosen_lanes(host, state.get("lanes"))]
        same = set(wanted) == set(lanes or [])
        return no_update if same else wanted, no_update if pinned_in(state) == (pinned or []) else pinned_in(
            state
        )


def saved_note() -> Any:
    """What a report without its trace can draw."""
    return empty(
        "What a saved report can draw",
        "Steps, what bound each, compiles, and where findings are seen. Host threads, device queues, annotations and "
        "every single event are in the trace alone: open the run itself to see them.",
    )
