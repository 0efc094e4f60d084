"""What is known of the event that was picked in the timeline, with links along the work it hands over or stems from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import Input, Output, Patch, State, html, no_update

from tpuprof.timeline.event import Chosen, End, EventDetails, HandOver, details_of_event, event_at
from tpuprof.units import PS_PER_MS, PS_PER_NS, format_ms, ps_to_ms
from tpuprof_dashboard.components.layout import code, empty, facts, link, number, plain_table
from tpuprof_dashboard.figures.picked_event import Picked, picked_traces
from tpuprof_dashboard.state import read_state, search_of
from tpuprof_dashboard.timeline_view import (
    DrawnRow,
    around,
    event_key,
    lanes_shown,
    pinned_in,
    read_event_key,
    read_merged_key,
)
from tpuprof_dashboard.words import part_title

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dash import Dash

    from tpuprof_dashboard.reading import HostDetails

# Hand-overs listed in each direction (rows).
LISTED = 12
# Share of the time between two ends of a hand-over shown on each side of it, and the least shown (ps).
_ROOM, _LEAST_ROOM = 0.5, 2_000_000
_WAYS = ("Where its work comes from", "What it hands over")


def details_in(state: Mapping[str, str], host: HostDetails | None) -> EventDetails | None:
    """The event that the address names, None where it names none of this host."""
    place = read_event_key(state.get("event", ""))
    if place is None or host is None:
        return None
    chosen = event_at(host.lanes, *place)
    if chosen is None:
        return None
    one, own = host.of_one_host(chosen)
    links = one.links()
    if links is None:
        return EventDetails(chosen)
    details = details_of_event(own, one.lanes, links)
    # Hand-overs lead to other events of its host, by that host's times.
    return details if one is host else replace(details, chosen=chosen, launched_by=[], launches=[])


def event_panel(state: Mapping[str, str], host: HostDetails, details: EventDetails | None) -> Any:
    """All that is known of the picked event; nothing where none is picked."""
    if details is None:
        return (
            empty("No such event", "The address names an event that this host does not have.")
            if state.get("event")
            else None
        )
    chosen = details.chosen
    head = [
        dmc.Title(part_title(chosen.name), order=2, size="h5", className="tpu-wrap"),
        dmc.Group(
            [
                *_on_its_host(state, host, chosen),
                _pin(state, chosen),
                link("Close", search_of(state, event=None)),
            ],
            gap="md",
        ),
    ]
    parts: list[Any] = [
        dmc.Group(head, justify="space-between", align="start"),
        facts("event", _facts(details)),
    ]
    if details.hlo:
        parts += [dmc.Text("HLO", size="sm", fw=600, mt="xs"), code(details.hlo, "event-hlo")]
    if details.recorded:
        for title, found, kind in zip(
            _WAYS, (details.launched_by, details.launches), ("by", "to"), strict=True
        ):
            parts += _hand_overs(state, host, title, found, f"event-{kind}")
    return html.Section(parts, className="tpu-event", tabIndex=0, **{"aria-label": "Picked event"})


def _facts(details: EventDetails) -> list[tuple[str, str]]:
    chosen = details.chosen
    rows = [
        ("lane", chosen.lane.title),
        ("starts", f"{chosen.start / PS_PER_MS:,.6f} ms from the start of the trace"),
        ("lasts", format_ms(ps_to_ms(chosen.duration))),
    ]
    rows += [("program and source", chosen.detail)] if chosen.detail else []
    rows += [("source line", details.source)] if details.source else []
    rows += [("scope", details.scope)] if details.scope else []
    rows += [("inside of", " › ".join(reversed(details.around)))] if details.around else []
    if not details.recorded:
        return [*rows, ("recorded as", "no event of the trace: computed from its events")]
    return [
        *rows,
        *details.values,
        *((f"{name} (of all of this name)", value) for name, value in details.facts),
    ]


def _on_its_host(state: Mapping[str, str], host: HostDetails, chosen: Chosen) -> list[Any]:
    """Where all hosts are drawn, the way to the same event among its own host's, with its hand-overs."""
    one, own = host.of_one_host(chosen)
    if one is host:
        return []
    event = event_key(own.lane.key, own.depth, own.start)
    low, high = around(own.start // PS_PER_NS, own.duration / PS_PER_MS)
    alone = {"host": one.name, "lanes": own.lane.key, "pin": None, "mark": None, "finding": None}
    return [
        link(
            "Show on its host", search_of(state, event=event, start=str(max(low, 0)), end=str(high), **alone)
        )
    ]


def _pin(state: Mapping[str, str], chosen: Chosen) -> Any:
    pinned, key = pinned_in(state), chosen.lane.key
    if key in pinned:
        rest = [each for each in pinned if each != key]
        return link("Unpin its lane", search_of(state, pin=",".join(rest) or None))
    return link("Pin its lane", search_of(state, pin=",".join([*pinned, key])))


def _hand_overs(
    state: Mapping[str, str], host: HostDetails, title: str, found: list[HandOver], table_id: str
) -> list[Any]:
    if not found:
        return []
    # Work on a device first: that is what a launch is for.
    order = sorted(found, key=lambda each: not each.target.on_device) if table_id == "event-to" else found
    rows = [_row(state, host, each) for each in order[:LISTED]]
    more = f"{title}: {len(found)}" + (f", the first {LISTED} of them" if len(found) > LISTED else "")
    columns = ("from", "on", "to", "on", "starts after (ms)", "window")
    return [dmc.Text(more, size="sm", fw=600, mt="xs"), plain_table(table_id, columns, rows)]


def _row(state: Mapping[str, str], host: HostDetails, each: HandOver) -> list[Any]:
    gap = ps_to_ms(each.target.start - each.source.at)
    return [
        _end(state, each.source),
        each.source.thread,
        _end(state, each.target),
        each.target.thread,
        number(f"{gap:,.3f}", gap, "ms"),
        _both(state, host, each),
    ]


def _end(state: Mapping[str, str], end: End) -> Any:
    """The event at one end, which leads to its details."""
    if end.lane is None or not end.duration:
        return end.name
    return link(end.name, search_of(state, event=event_key(end.lane.key, end.depth, end.start)))


def _both(state: Mapping[str, str], host: HostDetails, each: HandOver) -> Any:
    """Both ends in one window, with their lanes."""
    wanted = [end.lane.key for end in (each.source, each.target) if end.lane is not None]
    shown = [info.key for info in lanes_shown(host, state)]
    missing = [key for key in dict.fromkeys(wanted) if key not in shown]
    low, high = sorted((each.source.at, each.target.start))
    room = max(round((high - low) * _ROOM), _LEAST_ROOM)
    return link(
        "show both",
        search_of(
            state,
            start=str(max((low - room) // PS_PER_NS, 0)),
            end=str((high + room) // PS_PER_NS),
            lanes=",".join([*shown, *missing]) if missing else state.get("lanes"),
            mark=None,
            finding=None,
        ),
    )


def picked_of(details: EventDetails | None) -> Picked | None:
    """What the chart marks of an event."""
    return Picked.of(details) if details is not None else None


def register_event_panel(app: Dash, host_of: Callable[[Mapping[str, str]], HostDetails | None]) -> None:
    """Put what is clicked into the address, and show what the address names."""

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Output("timeline", "clickData"),
        Input("timeline", "clickData"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def pick(click: dict[str, Any] | None, search: str | None) -> Any:
        key = _clicked(click)
        state = read_state(search)
        if key is None or state.get("page") != "timeline":
            return no_update, no_update
        merged = read_merged_key(key)
        if merged is not None:
            return search_of(
                state, start=str(merged[0] // PS_PER_NS), end=str(-(-merged[1] // PS_PER_NS))
            ), None
        return search_of(state, event=key), None

    @app.callback(
        Output("timeline", "figure", allow_duplicate=True),
        Output("timeline-event", "children"),
        Output("picked", "data"),
        Input("url", "search"),
        State("theme", "forceColorScheme"),
        State("picked", "data"),
        prevent_initial_call=True,
    )
    def show(search: str | None, theme: str, picked: str | None) -> Any:
        state, host = read_state(search), host_of(read_state(search))
        if state.get("page") != "timeline" or host is None or picked == picked_state(state):
            return (no_update,) * 3
        details = details_in(state, host)
        change = Patch()
        rows = [
            DrawnRow(info, info.lane, depth, row.levels[0])
            for info in lanes_shown(host, state)
            for depth, row in enumerate(info.lane.rows)
        ]
        for at, trace in enumerate(picked_traces(rows, picked_of(details), f"mantine_{theme}")):
            change["data"][at] = trace.to_plotly_json()
        return change, event_panel(state, host, details), picked_state(state)


def picked_state(state: Mapping[str, str]) -> str:
    """What the panel depends on: the event, and all that its links keep. Empty where no event is picked."""
    return search_of(state) if state.get("event") else ""


def _clicked(click: dict[str, Any] | None) -> str | None:
    points = (click or {}).get("points") or [{}]
    data = points[0].get("customdata") if isinstance(points[0], dict) else None
    return data if isinstance(data, str) and (read_event_key(data) or read_merged_key(data)) else None
