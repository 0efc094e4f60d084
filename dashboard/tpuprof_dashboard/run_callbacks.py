"""Runs come and go while a page is open: new ones are announced, uploads are shown and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dash import Input, Output, State, no_update

from tpuprof_dashboard import shell
from tpuprof_dashboard.components.asking import asked, register_asking
from tpuprof_dashboard.state import read_state, search_of

if TYPE_CHECKING:
    import dash

    from tpuprof_dashboard.store import Store


def register_runs(app: dash.Dash, store: Store) -> None:
    """Keep the list of runs in step with the folders, and say what is new."""
    register_asking(app, "watch")
    _register_watch(app, store)
    _register_uploads(app, store)


def _register_watch(app: dash.Dash, store: Store) -> None:
    @app.callback(
        Output("run", "data"),
        Output("notice", "children"),
        Output("announced", "data"),
        asked("watch"),
        State("run", "data"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def watch(_ticks: int | None, known: list[dict[str, str]] | None, search: str | None) -> Any:
        store.rescan()
        labels, state = store.labels(), read_state(search)
        found = shell.choices(labels)
        if found == known:
            return (no_update,) * 3
        before = {each["value"] for each in known or []}
        new = {
            name: label for name, label in labels.items() if name not in before and name != state.get("run")
        }
        if not new or not state.get("run"):
            return found, no_update, no_update
        return found, shell.new_runs(new, state), list(new)

    @app.callback(
        Output("notice", "children", allow_duplicate=True),
        Input("url", "search"),
        State("announced", "data"),
        prevent_initial_call=True,
    )
    def seen(search: str | None, announced: list[str] | None) -> Any:
        return None if read_state(search).get("run") in (announced or []) else no_update


def _register_uploads(app: dash.Dash, store: Store) -> None:
    @app.callback(
        Output("run", "data", allow_duplicate=True), Input("uploaded", "data"), prevent_initial_call=True
    )
    def uploaded(_name: str | None) -> Any:
        return shell.choices(store.labels())

    @app.callback(
        Output("run", "data", allow_duplicate=True),
        Output("url", "search", allow_duplicate=True),
        Input("remove-upload", "n_clicks"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def remove(clicks: int | None, search: str | None) -> Any:
        if not clicks:
            return no_update, no_update
        state = read_state(search)
        store.remove(state.get("run", ""))
        kept = {key: value for key, value in state.items() if key == "theme"}
        return shell.choices(store.labels()), search_of(kept, run=next(iter(store.names()), None))
