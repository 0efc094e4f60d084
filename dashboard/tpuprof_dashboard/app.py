"""Builds the Dash app over a store of runs: routes the URL to a page, and reads runs in the background."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import dash
import dash_mantine_components as dmc
from dash import ALL, MATCH, Input, Output, State, ctx, no_update

from tpuprof.errors import TpuprofError
from tpuprof_dashboard import shell
from tpuprof_dashboard.components.layout import register_charts_after_words
from tpuprof_dashboard.components.tables import restored
from tpuprof_dashboard.pages.page import OPEN, Page, View
from tpuprof_dashboard.pages.registry import BY_KEY, PAGES
from tpuprof_dashboard.security import Guard, install
from tpuprof_dashboard.state import names_in, names_text, read_state, search_of
from tpuprof_dashboard.store import Failure, Loading, Store

if TYPE_CHECKING:
    from tpuprof.report.schema import Report


def create_app(store: Store, guard: Guard | None = None) -> dash.Dash:
    """An app that shows the store's runs. It fetches nothing from other sites."""
    dmc.add_figure_templates(default="mantine_light")
    app = dash.Dash(
        __name__, title="tpuprof", update_title=None, serve_locally=True, suppress_callback_exceptions=True
    )
    app.layout = lambda: shell.shell(store.names(), watching=store.watching)
    _register_route(app, store)
    _register_header(app, store)
    _register_tables(app)
    _register_runs(app, store)
    _register_open_rows(app)
    register_charts_after_words(app)
    for page in PAGES:
        if page.register:
            page.register(app, store)
    hashes: list[str] = []

    def inline_scripts() -> list[str]:
        if not hashes:
            hashes.extend(f"'{each}'" if not each.startswith("'") else each for each in app.csp_hashes())
        return hashes

    install(app.server, guard or Guard(), inline_scripts)
    return app


def _register_route(app: dash.Dash, store: Store) -> None:
    @app.callback(
        Output("page", "children"),
        Output("menu", "children"),
        Output("poll", "disabled"),
        Output("shown", "data"),
        Output("theme", "forceColorScheme"),
        Output("themed", "data-ag-theme-mode"),
        Input("url", "search"),
        Input("poll", "n_intervals"),
        Input("run", "data"),
        State("shown", "data"),
    )
    def route(search: str | None, _polls: int | None, _names: Any, shown: Any) -> Any:
        state = read_state(search)
        page = BY_KEY.get(state.get("page", ""), PAGES[0])
        content, status, report = _content(page, state, store)
        key = [status, page.key, *(state.get(each, "") for each in ("run", "theme", *page.keys))]
        theme = "dark" if state.get("theme") == "dark" else "light"
        if key == shown:
            return (no_update,) * 6
        built = restored(content(), state) if callable(content) else content
        return (
            built,
            shell.menu(PAGES, {**state, "page": page.key}, _counts(report)),
            not status.startswith("loading"),
            key,
            theme,
            theme,
        )


def _content(page: Page, state: dict[str, str], store: Store) -> tuple[Any, str, Report | None]:
    """What a page shows (or how to make it), its status, and the run's Report where there is one."""
    names = store.names()
    name = state.get("run") or (names[0] if names else "")
    if not name:
        return shell.nothing_yet(), "waiting", None
    report = store.report(name)
    if isinstance(report, (Failure, Loading)):
        return _not_ready(name, report)
    saved = store.is_saved(name)
    details = store.details(name) if page.needs_details else None
    if isinstance(details, (Failure, Loading)):
        return _not_ready(name, details)
    view = View(state, name, report, store, details, saved)
    head = [] if page is PAGES[0] else shell.page_head(page, predicted=report.predicted)
    return (lambda: [*head, *page.render(view)]), f"ready {id(report)}", report


def _not_ready(name: str, what: Failure | Loading) -> tuple[Any, str, None]:
    if isinstance(what, Loading):
        return shell.loading(name, what.done, what.doing, what.seconds), f"loading {what}", None
    return shell.failed(name, what.message), f"failed: {what.message}", None


def _counts(report: Report | None) -> dict[str, int]:
    if report is None:
        return {}
    failed = sum(each.status == "failed" for each in report.findings)
    return {"findings": failed, "compiles": len(report.compiles)}


def _register_header(app: dash.Dash, store: Store) -> None:
    @app.callback(
        Output("run", "value"), Output("dark", "checked"), Input("url", "search"), Input("run", "data")
    )
    def follow(search: str | None, _names: Any) -> Any:
        state, names = read_state(search), store.names()
        return state.get("run") or (names[0] if names else None), state.get("theme") == "dark"

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("run", "value"),
        Input("dark", "checked"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def change(name: str | None, dark: bool | None, search: str | None) -> Any:
        state, names = read_state(search), store.names()
        if ctx.triggered_id == "run" and name and name != (state.get("run") or (names[0] if names else "")):
            kept = {key: value for key, value in state.items() if key in ("page", "theme")}
            return search_of(kept, run=name)
        if ctx.triggered_id == "dark" and bool(dark) != (state.get("theme") == "dark"):
            return search_of(state, theme="dark" if dark else None)
        return no_update

    @app.callback(
        Output("frame", "navbar"), Input("burger", "opened"), Input("url", "search"), State("frame", "navbar")
    )
    def open_menu(opened: bool | None, _search: str | None, navbar: dict[str, Any]) -> Any:
        collapsed = not opened or ctx.triggered_id == "url"
        return {**navbar, "collapsed": {"mobile": collapsed}}


def _register_tables(app: dash.Dash) -> None:
    @app.callback(
        Output({"type": "table", "table": MATCH}, "exportDataAsCsv"),
        Input({"type": "csv", "table": MATCH}, "n_clicks"),
        prevent_initial_call=True,
    )
    def export(clicks: int | None) -> bool:
        return bool(clicks)


def _register_open_rows(app: dash.Dash) -> None:
    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input({"type": "open", "group": ALL}, "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def keep(groups: list[list[str] | str | None], search: str | None) -> Any:
        state = read_state(search)
        opened = [each for group in groups for each in ([group] if isinstance(group, str) else group or [])]
        if not groups or set(opened) == set(names_in(state, OPEN)):
            return no_update
        return search_of(state, **{OPEN: names_text(opened)})


def _register_runs(app: dash.Dash, store: Store) -> None:
    @app.callback(
        Output("run", "data"), Input("watch", "n_intervals"), State("run", "data"), prevent_initial_call=True
    )
    def watch(_ticks: int | None, known: list[dict[str, str]] | None) -> Any:
        found = shell.choices(store.rescan())
        return found if found != known else no_update

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Output("run", "data", allow_duplicate=True),
        Output("notice", "children"),
        Input("upload", "contents"),
        State("upload", "filename"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def upload(contents: str | None, filename: str | None, search: str | None) -> Any:
        if not contents:
            return no_update, no_update, no_update
        try:
            data = base64.b64decode(contents.partition(",")[2], validate=True)
            name = store.upload(filename or "trace", data)
        except (TpuprofError, binascii.Error) as error:
            alert = dmc.Alert(str(error), title="Not opened", color="red", withCloseButton=True, mb="md")
            return no_update, no_update, alert
        kept = {key: value for key, value in read_state(search).items() if key == "theme"}
        return search_of(kept, run=name), shell.choices(store.names()), None
