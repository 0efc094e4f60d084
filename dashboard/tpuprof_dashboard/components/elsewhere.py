"""Opens the window of the timeline in other viewers: Perfetto, and XProf in TensorBoard."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import ClientsideFunction, Input, Output, State, dcc, html, no_update

from tpuprof_dashboard.components.layout import code, section
from tpuprof_dashboard.state import read_state
from tpuprof_dashboard.viewers import logdir_of, missing_viewer

if TYPE_CHECKING:
    from dash import Dash

    from tpuprof.model.timeline import Host
    from tpuprof_dashboard.store import Store

    # The trace of the host that the URL's state names, and from when to when its window goes (ps).
    Opened = Callable[[Mapping[str, str]], tuple[Host, int, int] | None]


def elsewhere(path: Path, *, may_start: bool) -> Any:
    """How to open the same trace in other viewers. `may_start` says that whoever asks sits at this machine."""
    note = (
        "Perfetto shows every event of this window. “Open in Perfetto” opens ui.perfetto.dev in a tab of its own and "
        "hands it the events there, in the browser: they are not uploaded. Offline, download them for a Perfetto of "
        "your own. Nothing else on these pages leads to another site."
    )
    buttons = [
        dmc.Button("Open in Perfetto", id="perfetto-open", size="compact-sm", variant="default"),
        dmc.Button("Download for Perfetto", id="perfetto", size="compact-sm", variant="default"),
    ]
    return section(
        "Open elsewhere",
        dmc.Text(note, size="sm", maw=900),
        dmc.Group(buttons, gap="xs", my="xs"),
        html.Div(id="perfetto-note", role="status"),
        dcc.Store(id="perfetto-wanted"),
        dcc.Store(id="perfetto-data"),
        dcc.Download(id="perfetto-download"),
        *_tensorboard(path, may_start=may_start),
    )


def _tensorboard(path: Path, *, may_start: bool) -> list[Any]:
    folder, missing = logdir_of(path), missing_viewer()
    if folder is None:
        return [dmc.Text("XProf reads run folders; this trace is in none.", size="sm", mt="sm")]
    # The button is always there, so that its callback finds it.
    button = dmc.Button(
        "Open in XProf (TensorBoard)",
        id="tensorboard",
        size="compact-sm",
        variant="default",
        my="xs",
        disabled=bool(missing) or not may_start,
    )
    if missing:
        text = f"XProf in TensorBoard is {missing}. Where it is, this opens the run:"
    elif not may_start:
        text = "XProf in TensorBoard is started by whoever sits at the dashboard's machine:"
    else:
        text = "Or, with tpuprof's verdict and step times beside the profile:"
    command = f"tpuprof tensorboard {shlex.quote(str(folder))}"
    return [
        button,
        html.Div(id="tensorboard-note", role="status"),
        dmc.Text(text, size="sm"),
        code(command, "tensorboard-command"),
    ]


def register_elsewhere(app: Dash, store: Store, opened: Opened) -> None:
    """Let the buttons work."""
    _register_download(app, opened)
    _register_tensorboard(app, store)


def _register_download(app: Dash, opened: Opened) -> None:
    @app.callback(
        Output("perfetto-download", "data"),
        Output("perfetto-note", "children"),
        Input("perfetto", "n_clicks"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def download(clicks: int | None, search: str | None) -> Any:
        data, note = _for_perfetto(opened(read_state(search))) if clicks else (None, None)
        return (dcc.send_bytes(data, "window.trace.json.gz") if data else no_update), note

    # The tab is opened by the click itself, as browsers demand, and waits there for the events.
    app.clientside_callback(
        ClientsideFunction("tpuprof", "askPerfetto"),
        Output("perfetto-wanted", "data"),
        Input("perfetto-open", "n_clicks"),
        prevent_initial_call=True,
    )

    @app.callback(
        Output("perfetto-data", "data"),
        Output("perfetto-note", "children", allow_duplicate=True),
        Input("perfetto-wanted", "data"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def events(wanted: int | None, search: str | None) -> Any:
        data, note = _for_perfetto(opened(read_state(search))) if wanted else (None, None)
        return (base64.b64encode(data).decode() if data else no_update), note

    app.clientside_callback(
        ClientsideFunction("tpuprof", "handToPerfetto"),
        Output("perfetto-open", "data-handed"),
        Input("perfetto-data", "data"),
        prevent_initial_call=True,
    )


def _for_perfetto(window: tuple[Host, int, int] | None) -> tuple[bytes | None, Any]:
    """The window's events as compressed Chrome JSON, and a note on what was left out."""
    from tpuprof.export.chrome_json import chrome_json

    if window is None:
        return None, None
    data, left_out = chrome_json(*window)
    note = f"{left_out:,} of the shortest events were left out: zoom in for all of them." if left_out else ""
    return data, dmc.Text(note, size="sm", c="dimmed")


def _register_tensorboard(app: Dash, store: Store) -> None:
    @app.callback(
        Output("tensorboard-note", "children"),
        Input("tensorboard", "n_clicks"),
        State("url", "search"),
        running=[(Output("tensorboard", "loading"), True, False)],
        prevent_initial_call=True,
    )
    def start(clicks: int | None, search: str | None) -> Any:
        name = read_state(search).get("run", "")
        folder = logdir_of(store.path(name)) if name in store.names() else None
        if not clicks or store.viewers is None or folder is None:
            return no_update
        try:
            address = store.viewers.open(folder)
        except OSError as error:
            return dmc.Alert(f"XProf could not be opened: {error}.", color="red", my="xs")
        text = f"XProf on this run: {address}"
        return html.A(text, href=address, target="_blank", rel="noopener noreferrer")
