"""Notes on spans of the timeline: writing one on the picked event, the list of all, and deleting."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import ALL, Input, Output, State, ctx, html, no_update

from tpuprof.model.span_notes import LONGEST_NOTE
from tpuprof.report.span_note import SpanNote
from tpuprof.units import NS_PER_MS, PS_PER_NS, format_ms
from tpuprof_dashboard.components.event_panel import details_in
from tpuprof_dashboard.components.layout import link, plain_table, section
from tpuprof_dashboard.state import read_state, search_of
from tpuprof_dashboard.store import Failure
from tpuprof_dashboard.timeline_view import around, is_notes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dash import Dash

    from tpuprof.timeline.event import EventDetails
    from tpuprof_dashboard.reading import HostDetails
    from tpuprof_dashboard.store import Store

_KEPT = "Kept with the run, or with the upload as long as that is, and part of its reports and tickets."


def can_note(details: EventDetails | None, *, may_note: bool) -> bool:
    """Whether a note can be made on what is picked."""
    return details is not None and may_note and not is_notes(details.chosen.lane.key)


def note_box(details: EventDetails | None, *, may_note: bool) -> Any:
    """Where a note on the picked event is written; hidden where none is picked, or no note can be kept."""
    hidden = not can_note(details, may_note=may_note)
    box = dmc.Textarea(
        id="note-text",
        label="Note on the picked event",
        description=_KEPT,
        autosize=True,
        minRows=1,
        maxRows=6,
    )
    button = dmc.Button("Save note", id="note-save", size="compact-sm", variant="default", mt=4)
    failed = html.Div(id="note-failed", role="alert")
    # Always there, so that callbacks find it.
    return html.Div([box, button, failed], id="note-box", style=box_style(hidden=hidden))


def box_style(*, hidden: bool) -> dict[str, Any]:
    """How the box is shown."""
    return {"display": "none"} if hidden else {"marginTop": 12}


def notes_list(state: Mapping[str, str], notes: Sequence[SpanNote], *, may_note: bool) -> Any:
    """The notes on a run, each with a link to its span; nothing where there is none."""
    if not notes:
        return None
    rows = [
        [
            html.Span(each.text, style={"whiteSpace": "pre-wrap"}),
            " · ".join(filter(None, [each.name, each.lane, each.host])),
            f"{each.start_ns / NS_PER_MS:,.3f} ms, for {format_ms(each.duration_ns / NS_PER_MS)}",
            link("show", _window(state, each)),
            dmc.Button(
                "Delete",
                id={"type": "note-delete", "note": _key(each)},
                size="compact-xs",
                variant="default",
                **{"aria-label": f"Delete the note {at + 1}"},
            )
            if may_note
            else "",
        ]
        for at, each in enumerate(notes)
    ]
    return section("Notes", plain_table("notes", ("note", "on", "at", "window", "remove"), rows))


def _window(state: Mapping[str, str], note: SpanNote) -> str:
    low, high = around(note.start_ns, note.duration_ns / NS_PER_MS)
    mark = f"{note.start_ns}-{note.start_ns + max(note.duration_ns, 1)}"
    host = note.host or state.get("host")
    return search_of(state, host=host, start=str(max(low, 0)), end=str(high), mark=mark, finding=None)


def _key(note: SpanNote) -> str:
    return f"{note.written_at} {note.start_ns} {note.host}"


def _on(details: EventDetails, host: HostDetails, text: str) -> SpanNote:
    one, chosen = host.of_one_host(details.chosen)
    return SpanNote(
        one.name,
        chosen.lane.title,
        chosen.name,
        max(chosen.start // PS_PER_NS, 0),
        chosen.duration // PS_PER_NS,
        text,
        datetime.now(UTC).isoformat(timespec="microseconds"),
    )


def register_notes(
    app: Dash, store: Store, host_of: Callable[[Mapping[str, str]], HostDetails | None]
) -> None:
    """Keep and delete notes; the chart is drawn again with them, as the address has not changed."""
    _register_changes(app, store, host_of)

    @app.callback(
        Output("timeline-notes", "children"),
        Input("noted", "data"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def listed(_noted: int, search: str | None) -> Any:
        state = read_state(search)
        name = state.get("run", "")
        return notes_list(state, notes_of(store, name), may_note=store.may_note(name))

    @app.callback(
        Output("note-box", "style"),
        Input("picked", "data"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def offer(_picked: str, search: str | None) -> Any:
        state = read_state(search)
        details = details_in(state, host_of(state))
        return box_style(hidden=not can_note(details, may_note=store.may_note(state.get("run", ""))))


def _register_changes(
    app: Dash, store: Store, host_of: Callable[[Mapping[str, str]], HostDetails | None]
) -> None:
    @app.callback(
        Output("noted", "data"),
        Output("note-text", "value"),
        Output("note-failed", "children"),
        Input("note-save", "n_clicks"),
        Input({"type": "note-delete", "note": ALL}, "n_clicks"),
        State("note-text", "value"),
        State("url", "search"),
        State("noted", "data"),
        prevent_initial_call=True,
    )
    def change(
        _saved: int | None, _deleted: list[int | None], text: str | None, search: str | None, noted: int
    ) -> Any:
        state, wanted = read_state(search), ctx.triggered_id
        name, host = state.get("run", ""), host_of(read_state(search))
        if not ctx.triggered[0]["value"] or host is None:
            return (no_update,) * 3
        if wanted == "note-save":
            details = details_in(state, host)
            if details is None or not (text or "").strip():
                return no_update, no_update, "Pick an event in the chart, and write a note."
            if len(text or "") > LONGEST_NOTE:
                return no_update, no_update, f"A note has {LONGEST_NOTE:,} characters at most: shorten it."
            note = _on(details, host, text or "")
            failure = store.note(name, lambda notes: [*notes, note])
        else:
            failure = store.note(name, lambda notes: [each for each in notes if _key(each) != wanted["note"]])
        if failure is not None:
            return no_update, no_update, failure.message
        return noted + 1, "" if wanted == "note-save" else no_update, None


def notes_of(store: Store, name: str) -> list[SpanNote]:
    """The notes on a run whose Report has been read."""
    report = store.report(name)
    return list(getattr(report, "span_notes", [])) if not isinstance(report, Failure) else []
