"""Host threads and device queues over time; zooming asks the server for more detail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import Input, Output, State, ctx, dcc, html, no_update

from tpuprof.units import PS_PER_MS, PS_PER_NS, format_ms, ps_to_ms
from tpuprof_dashboard.components.layout import empty, section
from tpuprof_dashboard.components.tables import table
from tpuprof_dashboard.components.timeline_controls import MOVES, controls, elsewhere
from tpuprof_dashboard.figures.timeline import timeline
from tpuprof_dashboard.pages.page import Page, View
from tpuprof_dashboard.state import integer, read_state, search_of
from tpuprof_dashboard.store import Details
from tpuprof_dashboard.timeline_view import (
    Drawing,
    DrawnRow,
    Window,
    chosen_lanes,
    clamp,
    default_lanes,
    draw,
)
from tpuprof_dashboard.words import part_title

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dash import Dash

    from tpuprof_dashboard.store import HostDetails, Store

# Events of the window listed below the chart, the longest first (rows).
_LISTED = 200
_NS_PER_MS = 1_000_000


def _render(view: View) -> list[Any]:
    details = view.details
    host = _host(details, view.state) if details else None
    if details is None or host is None or not host.lanes:
        return [
            empty(
                "No timeline", "The trace holds no events.", "Capture again while training steps are running."
            )
        ]
    shown, drawing = chosen_lanes(host.lanes, view.state.get("lanes")), _drawing(view.state, host)
    data = [{"value": each.key, "label": f"{each.title} ({each.events:,})"} for each in host.lanes]
    lanes = dmc.MultiSelect(
        id="lanes",
        data=data,
        value=[each.key for each in shown],
        label="Lanes",
        searchable=True,
        clearable=True,
        maxDropdownHeight=320,
        limit=200,
        description="Threads and device queues to draw; none chosen draws the usual ones.",
    )
    graph = dcc.Graph(
        id="timeline",
        figure=timeline(drawing, view.template),
        # The buttons above do what its own would, and can be reached with the keyboard.
        config={"displayModeBar": False, "scrollZoom": False},
    )
    return [
        controls(view, list(details.hosts), host.run.name),
        html.Div(
            graph, role="img", **{"aria-label": "Timeline of the window; the longest events are listed below"}
        ),
        dmc.Text(_note(drawing), id="timeline-note", size="sm", c="dimmed"),
        html.Div(lanes, style={"marginTop": 12}),
        section("Longest events of the window", html.Div(_listed(drawing), id="timeline-events")),
        elsewhere(view.store.path(view.name)),
    ]


def _host(details: Details | None, state: Mapping[str, str]) -> HostDetails | None:
    hosts = details.hosts if details else {}
    return hosts.get(state.get("host", "")) or next(iter(hosts.values()), None)


def _window(state: Mapping[str, str], host: HostDetails) -> Window:
    start, end = clamp(integer(state, "start"), integer(state, "end"), host.start, host.end)
    low, _, high = state.get("mark", "").partition("-")
    if not (low.isdecimal() and high.isdecimal() and len(high) < 20):
        return Window(start, end)
    return Window(start, end, (int(low) * PS_PER_NS, int(high) * PS_PER_NS))


def _drawing(state: Mapping[str, str], host: HostDetails) -> Drawing:
    return draw(chosen_lanes(host.lanes, state.get("lanes")), _window(state, host))


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
    return f"{text}. Drag across the chart to zoom in; double-click to see all."


def _listed(drawing: Drawing) -> Any:
    rows = [row for drawn in drawing.rows for row in _longest(drawn)]
    rows.sort(key=lambda each: -float(each["duration ms"]))
    if not rows:
        return empty("No events", "Nothing happened on these lanes in this window.")
    return table("timeline-events", rows[:_LISTED])


def _longest(drawn: DrawnRow) -> list[dict[str, Any]]:
    """The longest events of one row, merged ones left out."""
    bars, lane = drawn.bars, drawn.lane
    order = (-bars.longest * (bars.count == 1)).argsort()[:_LISTED].tolist()
    return [
        {
            "lane": drawn.info.title,
            "name": part_title(lane.names[int(bars.label[at])]),
            "start ms": int(bars.start[at]) / PS_PER_MS,
            "duration ms": int(bars.busy[at]) / PS_PER_MS,
            "program and source": lane.details[int(bars.label[at])],
        }
        for at in order
        if bars.count[at] == 1
    ]


def _register(app: Dash, store: Store) -> None:
    _register_drawing(app, store)
    _register_window(app, store)
    _register_download(app, store)


def _register_drawing(app: Dash, store: Store) -> None:
    @app.callback(
        Output("timeline", "figure"),
        Output("timeline-note", "children"),
        Output("timeline-events", "children"),
        Input("url", "search"),
        State("theme", "forceColorScheme"),
        prevent_initial_call=True,
    )
    def redraw(search: str | None, theme: str) -> Any:
        state = read_state(search)
        host = _loaded_host(store, state)
        if state.get("page") != "timeline" or host is None:
            return no_update, no_update, no_update
        drawing = _drawing(state, host)
        return timeline(drawing, f"mantine_{theme}"), _note(drawing), _listed(drawing)

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("lanes", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def choose(keys: list[str] | None, search: str | None) -> Any:
        state = read_state(search)
        host = _loaded_host(store, state)
        if host is None:
            return no_update
        usual = [each.key for each in default_lanes(host.lanes)]
        wanted = None if not keys or set(keys) == set(usual) else ",".join(keys)
        return search_of(state, lanes=wanted) if wanted != state.get("lanes") else no_update


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
        if host is None or not 0 <= row < len(host.run.steps):
            return no_update
        start, end = int(host.run.steps.start[row]), int(host.run.steps.end[row])
        room = (end - start) // 20
        return search_of(state, start=_ns(start - room), end=_ns(end + room), mark=None)


def _register_download(app: Dash, store: Store) -> None:
    @app.callback(
        Output("download", "data"),
        Output("perfetto-note", "children"),
        Input("perfetto", "n_clicks"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def download(clicks: int | None, search: str | None) -> Any:
        from tpuprof.export.chrome_json import chrome_json

        state = read_state(search)
        host = _loaded_host(store, state)
        if host is None or not clicks:
            return no_update, no_update
        window = _window(state, host)
        data, left_out = chrome_json(host.host, window.start, window.end)
        note = (
            f"{left_out:,} of the shortest events were left out: zoom in for all of them." if left_out else ""
        )
        return dcc.send_bytes(data, "window.trace.json.gz"), dmc.Text(note, size="sm", c="dimmed")


def _loaded_host(store: Store, state: Mapping[str, str]) -> HostDetails | None:
    """The host the URL names, where its run has been read."""
    details = store.details(state.get("run") or next(iter(store.names()), ""))
    return _host(details if isinstance(details, Details) else None, state)


def _moved(how: str, start: int, end: int) -> dict[str, str | None]:
    """The window (ns) after a button: half or twice as wide, or half a width to a side."""
    if how == "all":
        return {"start": None, "end": None, "mark": None}
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
    return {"start": str(max(round(low * _NS_PER_MS), 0)), "end": str(round(high * _NS_PER_MS))}


PAGE = Page(
    "timeline",
    "Timeline",
    "What host and device did, moment by moment.",
    _render,
    needs_details=True,
    keys=("host",),
    register=_register,
)
