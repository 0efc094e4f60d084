"""A box that finds events of all lanes by name, and the table of what it found, with a link to each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import Input, Output, State, no_update

from tpuprof.timeline.search import FoundEvent, find_events
from tpuprof.units import PS_PER_MS, PS_PER_NS
from tpuprof_dashboard.components.layout import empty, section
from tpuprof_dashboard.components.tables import GO, table
from tpuprof_dashboard.state import read_state, search_of
from tpuprof_dashboard.timeline_view import around, event_key, lanes_shown
from tpuprof_dashboard.words import part_title

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dash import Dash

    from tpuprof_dashboard.reading import HostDetails

# Events listed in one table (rows), and letters of a name from which it is looked for: fewer would find nearly all.
LISTED = 200
_LETTERS = 2


def search_box(state: Mapping[str, str]) -> Any:
    """The box, with the name that the address holds."""
    return dmc.TextInput(
        id="find-event",
        value=state.get("find", ""),
        placeholder="Find events by name, in all lanes",
        debounce=500,
        size="xs",
        w=300,
        mt="md",
        mb="xs",
        **{"aria-label": "Find events by name"},
    )


def found_events(host: HostDetails, state: Mapping[str, str]) -> Any:
    """The longest events whose name holds the text of the address; nothing where it has none."""
    text = state.get("find", "").strip()
    if not text:
        return None
    if len(text) < _LETTERS:
        return empty("Too short", f"Type at least {_LETTERS} letters of an event's name.")
    found, count = find_events(host.lanes, text, LISTED)
    if not found:
        return empty("No event", f"No event of {host.name} has {text!r} in its name.")
    shown = [each.key for each in lanes_shown(host, state)]
    rows = [
        event_row(each.lane.title, each.name, each.start, each.duration, each.detail)
        | {GO: _window(state, each, shown)}
        for each in found
    ]
    title = f"Events with {text!r} in their name: {count:,}"
    return section(
        title if count <= LISTED else f"{title}, the longest {LISTED} of them", table("found-events", rows)
    )


def event_row(lane: str, name: str, start: int, duration: int, detail: str) -> dict[str, Any]:
    """An event as a row of a table; times in ps."""
    return {
        "lane": lane,
        "name": part_title(name),
        "start ms": start / PS_PER_MS,
        "duration ms": duration / PS_PER_MS,
        "program and source": detail,
    }


def _window(state: Mapping[str, str], found: FoundEvent, shown: list[str]) -> str:
    """The query that shows one event and its details, with its lane where that is not drawn yet."""
    start, key = found.start, found.lane.key
    low, high = around(start // PS_PER_NS, found.duration / PS_PER_MS)
    mark = f"{start // PS_PER_NS}-{(start + found.duration) // PS_PER_NS}"
    return search_of(
        state,
        start=str(max(low, 0)),
        end=str(high),
        mark=mark,
        finding=None,
        lanes=state.get("lanes") if key in shown else ",".join([*shown, key]),
        event=event_key(key, found.depth, start),
    )


def register_search(app: Dash) -> None:
    """Put what is typed into the address, from where the page is drawn."""

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("find-event", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def find(text: str | None, search: str | None) -> Any:
        state = read_state(search)
        wanted = (text or "").strip() or None
        return search_of(state, find=wanted) if wanted != state.get("find") else no_update
