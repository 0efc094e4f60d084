"""Host threads and device queues over time; zooming asks the server for more detail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import Input, Output, State, ctx, dcc, html, no_update

from tpuprof.units import NS_PER_MS, PS_PER_MS, PS_PER_NS, format_ms, ps_to_ms
from tpuprof_dashboard.all_hosts import ALL_HOSTS, all_hosts
from tpuprof_dashboard.components.elsewhere import elsewhere, register_elsewhere
from tpuprof_dashboard.components.event_panel import (
    details_in,
    event_panel,
    picked_of,
    picked_state,
    register_event_panel,
)
from tpuprof_dashboard.components.event_search import (
    LISTED,
    event_row,
    found_events,
    register_search,
    search_box,
)
from tpuprof_dashboard.components.layout import CHART_CONFIG, empty, section
from tpuprof_dashboard.components.span_notes import note_box, notes_list, register_notes
from tpuprof_dashboard.components.tables import GO, restored, table
from tpuprof_dashboard.components.timeline_controls import (
    MOVES,
    controls,
    finding_chips,
    lane_choice,
    register_lane_choice,
    saved_note,
    steps_of,
)
from tpuprof_dashboard.figures.timeline import timeline
from tpuprof_dashboard.pages.page import Page, View
from tpuprof_dashboard.reading import Details
from tpuprof_dashboard.state import integer, read_state, search_of
from tpuprof_dashboard.store import Failure, Loading
from tpuprof_dashboard.timeline_view import (
    Drawing,
    DrawnRow,
    Window,
    clamp,
    draw,
    event_key,
    lanes_shown,
    pinned_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dash import Dash

    from tpuprof.model.timeline import Host
    from tpuprof.report.schema import Report
    from tpuprof_dashboard.reading import HostDetails
    from tpuprof_dashboard.store import Store

# What assets/timeline_gestures.js and the chart itself do.
_GESTURES = (
    "Drag across the chart, pinch, or turn the wheel with Ctrl to zoom in; double-click to see all. Keys: W and S "
    "zoom, A and D move."
)
# Spans of one finding marked at most: more would shade the whole chart.
MAX_MARKS = 60


def _render(view: View) -> list[Any]:
    details = view.details
    host = _host(details, view.state, view.report) if details else None
    if details is None or host is None or not host.lanes:
        return [
            empty(
                "No timeline", "The trace holds no events.", "Capture again while training steps are running."
            )
        ]
    picked = details_in(view.state, host)
    drawing = _drawing(view.state, host, view.report)
    graph = dcc.Graph(
        id="timeline",
        figure=timeline(drawing, view.template, picked_of(picked)),
        # The buttons above do what its own would, and can be reached with the keyboard.
        config={**CHART_CONFIG, "displayModeBar": False, "scrollZoom": False},
    )
    return [
        *([saved_note()] if view.saved else []),
        controls(view, details, host),
        _clocks(host, view.report),
        finding_chips(view),
        dcc.Store(id="drawn", data=_drawn(view.state, view.theme)),
        dcc.Store(id="picked", data=picked_state(view.state)),
        html.Div(
            graph,
            role="figure",
            **{"aria-label": "Timeline of the window; the longest events are listed below"},
        ),
        dmc.Text(_note(drawing), id="timeline-note", size="sm", c="dimmed"),
        html.Div(event_panel(view.state, host, picked), id="timeline-event"),
        note_box(picked, may_note=view.store.may_note(view.name)),
        dcc.Store(id="noted", data=0),
        html.Div(
            notes_list(view.state, view.report.span_notes, may_note=view.store.may_note(view.name)),
            id="timeline-notes",
        ),
        html.Div(lane_choice(host, view.state), style={"marginTop": 12}),
        search_box(view.state),
        html.Div(found_events(host, view.state), id="timeline-found"),
        section("Longest events of the window", html.Div(_listed(drawing, view.state), id="timeline-events")),
        None
        if view.saved
        else elsewhere(view.store.path(view.name), may_start=view.store.viewers is not None),
    ]


def _clocks(host: HostDetails, report: Report) -> Any:
    """How the clocks of hosts were brought together, where several are drawn."""
    if host.name != ALL_HOSTS:
        return None
    return dmc.Text(f"All hosts on one clock: {report.hosts.clocks}.", size="sm", c="dimmed", mb="xs")


def _drawn(state: Mapping[str, str], theme: str) -> list[str]:
    """What a drawing depends on: as long as it stays, the address may change without drawing again.

    First what a search depends on: it goes through all lanes, which need not be for each zoom.
    """
    searched = [theme, *(state.get(key, "") for key in ("run", "host", "find", "lanes", "pin"))]
    return ["\n".join(searched), *(state.get(key, "") for key in ("start", "end", "mark", "finding"))]


def _host(details: Details | None, state: Mapping[str, str], report: Report | None) -> HostDetails | None:
    hosts, name = details.hosts if details else {}, state.get("host", "")
    together = all_hosts(details, report) if name == ALL_HOSTS and details and report else None
    return hosts.get(name) or together or next(iter(hosts.values()), None)


def _window(state: Mapping[str, str], host: HostDetails, report: Report | None = None) -> Window:
    start, end = clamp(integer(state, "start"), integer(state, "end"), host.start, host.end)
    marks = _finding_spans(report, state.get("finding", ""), host) if report else []
    low, _, high = state.get("mark", "").partition("-")
    if low.isdecimal() and high.isdecimal() and len(high) < 20:
        marks = [(int(low) * PS_PER_NS, int(high) * PS_PER_NS)]
    return Window(start, end, tuple(marks))


def _finding_spans(report: Report, rule: str, host: HostDetails) -> list[tuple[int, int]]:
    """Where one finding is seen on a host, or on all (ps)."""
    found = [
        (each.start_ns * PS_PER_NS + shift, max(round((each.duration_ms or 0) * PS_PER_MS), 1))
        for finding in report.findings
        if finding.rule == rule
        for each in finding.evidence
        if each.start_ns is not None and (shift := host.shift_of(each.host)) is not None
    ]
    return [(start, start + length) for start, length in found[:MAX_MARKS]]


def _drawing(state: Mapping[str, str], host: HostDetails, report: Report | None) -> Drawing:
    return draw(lanes_shown(host, state), _window(state, host, report), pinned_in(state))


def _note(drawing: Drawing) -> str:
    window = drawing.window
    merged = sum(int((row.bars.count > 1).sum()) for row in drawing.rows)
    bars = sum(len(row.bars) for row in drawing.rows)
    text = f"{format_ms(ps_to_ms(window.end - window.start))} from {window.start / PS_PER_MS:,.3f} ms: {bars:,} bars"
    if merged:
        text += f", {merged:,} of which stand for several events narrower than {format_ms(ps_to_ms(drawing.pixel))}"
    deeper = sum(row.lane.deeper for row in drawing.rows if row.depth == 0)
    if deeper:
        text += f". {deeper:,} events nested deeper than the rows go are not drawn"
    return f"{text}. {_GESTURES}"


def _listed(drawing: Drawing, state: Mapping[str, str]) -> Any:
    rows = [row for drawn in drawing.rows for row in _longest(drawn, state)]
    rows.sort(key=lambda each: -float(each["duration ms"]))
    if not rows:
        return empty("No events", "Nothing happened on these lanes in this window.")
    return table("timeline-events", rows[:LISTED], go_title="details")


def _longest(drawn: DrawnRow, state: Mapping[str, str]) -> list[dict[str, Any]]:
    """The longest events of one row, merged ones left out."""
    bars, lane = drawn.bars, drawn.lane
    order = (-bars.longest * (bars.count == 1)).argsort()[:LISTED].tolist()
    return [
        event_row(
            drawn.info.title,
            lane.names[int(bars.label[at])],
            int(bars.start[at]),
            int(bars.busy[at]),
            lane.details[int(bars.label[at])],
        )
        | {GO: search_of(state, event=event_key(drawn.info.key, drawn.depth, int(bars.start[at])))}
        for at in order
        if bars.count[at] == 1
    ]


def _register(app: Dash, store: Store) -> None:
    _register_drawing(app, store)
    register_lane_choice(app, lambda state: _loaded_host(store, state))
    _register_window(app, store)
    _register_steps(app, store)
    register_search(app)
    register_event_panel(app, lambda state: _loaded_host(store, state))
    register_notes(app, store, lambda state: _loaded_host(store, state))
    register_elsewhere(app, store, lambda state: _open_window(store, state))


def _register_drawing(app: Dash, store: Store) -> None:
    @app.callback(
        Output("timeline", "figure"),
        Output("timeline-note", "children"),
        Output("timeline-events", "children"),
        Output("timeline-found", "children"),
        Output("drawn", "data"),
        Input("url", "search"),
        Input("noted", "data"),
        State("theme", "forceColorScheme"),
        State("drawn", "data"),
        prevent_initial_call=True,
    )
    def redraw(search: str | None, _noted: int, theme: str, drawn: list[str] | None) -> Any:
        state = read_state(search)
        host, wanted = _loaded_host(store, state), _drawn(state, theme)
        is_same = wanted == drawn and ctx.triggered_id != "noted"
        if state.get("page") != "timeline" or host is None or is_same:
            return (no_update,) * 5
        drawing = _drawing(state, host, _loaded_report(store, state))
        (listed,) = restored([_listed(drawing, state)], state)
        found: Any = no_update
        if not drawn or drawn[0] != wanted[0]:
            (found,) = restored([html.Div(found_events(host, state))], state)
        picked = picked_of(details_in(state, host))
        return timeline(drawing, f"mantine_{theme}", picked), _note(drawing), listed, found, wanted


def _register_window(app: Dash, store: Store) -> None:
    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("timeline", "relayoutData"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def zoom(layout: dict[str, Any] | None, search: str | None) -> Any:
        changes = _zoomed(layout or {})
        return search_of(read_state(search), **changes) if changes else no_update

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        [Input(f"move-{key}", "n_clicks") for key, _ in MOVES],
        State("url", "search"),
        prevent_initial_call=True,
    )
    def move(*arguments: Any) -> Any:
        state = read_state(arguments[-1])
        host = _loaded_host(store, state)
        if host is None or not any(arguments[:-1]):
            return no_update
        window = _window(state, host)
        return search_of(
            state, **_moved(str(ctx.triggered_id).removeprefix("move-"), window.start, window.end)
        )


def _register_steps(app: Dash, store: Store) -> None:
    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("go-step", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def go_to_step(value: str | None, search: str | None) -> Any:
        state = read_state(search)
        host = _loaded_host(store, state)
        row = int(value) if value and value.isdecimal() else -1
        report = _loaded_report(store, state)
        steps = steps_of(report, host) if host and report else []
        if not 0 <= row < len(steps):
            return no_update
        shift, step = steps[row]
        start = step.start_ns * PS_PER_NS + shift
        end = start + round(step.wall_ms * PS_PER_MS)
        room = (end - start) // 20
        return search_of(state, start=_ns(start - room), end=_ns(end + room), mark=None)


def _open_window(store: Store, state: Mapping[str, str]) -> tuple[Host, int, int] | None:
    """The trace of the host that the URL names, and from when to when its window goes (ps); None without a trace."""
    host = _loaded_host(store, state)
    if host is None or host.host is None:
        return None
    window = _window(state, host)
    return host.host, window.start, window.end


def _loaded_report(store: Store, state: Mapping[str, str]) -> Report | None:
    found = store.report(state.get("run", ""))
    return None if isinstance(found, (Failure, Loading)) else found


def _loaded_host(store: Store, state: Mapping[str, str]) -> HostDetails | None:
    """The host the URL names, where its run has been read."""
    details = store.details(state.get("run", ""))
    return _host(details if isinstance(details, Details) else None, state, _loaded_report(store, state))


def _moved(how: str, start: int, end: int) -> dict[str, str | None]:
    """The window (ns) after a button: half or twice as wide, or half a width to a side."""
    if how == "all":
        return {"start": None, "end": None, "mark": None, "finding": None}
    width = end - start
    shifts = {"in": (width // 4, -width // 4), "out": (-width // 2, width // 2)}
    shifts |= {"left": (-width // 2, -width // 2), "right": (width // 2, width // 2)}
    low, high = shifts[how]
    return {"start": _ns(start + low), "end": _ns(end + high)}


def _ns(ps: int) -> str:
    return str(max(ps // PS_PER_NS, 0))


def _zoomed(layout: dict[str, Any]) -> dict[str, str | None]:
    """Start and end (ns) of a zoom in the browser; empty where it was none."""
    if layout.get("xaxis.autorange"):
        return {"start": None, "end": None}
    low, high = layout.get("xaxis.range[0]"), layout.get("xaxis.range[1]")
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        return {}
    return {"start": str(max(round(low * NS_PER_MS), 0)), "end": str(round(high * NS_PER_MS))}


PAGE = Page(
    "timeline",
    "Timeline",
    "What host and device did, moment by moment.",
    _render,
    needs_details=True,
    keys=("host", "finding"),
    register=_register,
)
