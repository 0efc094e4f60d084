"""Builds the Dash app over a store of runs: routes the URL to a page, and reads runs in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash
import dash_mantine_components as dmc
from dash import ALL, MATCH, ClientsideFunction, Input, Output, State, ctx, no_update

from tpuprof.compare.diff import Comparison
from tpuprof_dashboard import shell
from tpuprof_dashboard.components.against import BASE, base_note, changes_shown, wanted_base
from tpuprof_dashboard.components.asking import asked, register_asking
from tpuprof_dashboard.components.findings import register_findings
from tpuprof_dashboard.components.layout import register_charts_after_words
from tpuprof_dashboard.components.made_from import made_from
from tpuprof_dashboard.components.tables import restored
from tpuprof_dashboard.pages.page import OPEN, Page, View
from tpuprof_dashboard.pages.registry import BY_KEY, PAGES
from tpuprof_dashboard.routes import install_routes
from tpuprof_dashboard.run_callbacks import register_runs
from tpuprof_dashboard.security import Guard, install
from tpuprof_dashboard.state import names_in, names_text, read_state, search_of, theme_of
from tpuprof_dashboard.store import Failure, Loading, Store
from tpuprof_dashboard.watched import watched_folders
from tpuprof_dashboard.words import short

if TYPE_CHECKING:
    from tpuprof.report.schema import Report


# The status of a page that is shown while its run and the base are compared.
COMPARING = "comparing"
# The page that Dash fills: it states its language, and that both themes exist.
_INDEX = """<!doctype html>
<html lang="en">
<head>
{%metas%}
<meta name="color-scheme" content="light dark">
<title>{%title%}</title>
{%favicon%}
{%css%}
</head>
<body>
{%app_entry%}
<footer>
{%config%}
{%scripts%}
{%renderer%}
</footer>
</body>
</html>
"""


def create_app(store: Store, guard: Guard | None = None) -> dash.Dash:
    """An app that shows the store's runs. It fetches nothing from other sites."""
    dmc.add_figure_templates(default="mantine_light")
    app = dash.Dash(
        __name__,
        title="tpuprof",
        update_title=None,
        serve_locally=True,
        suppress_callback_exceptions=True,
        index_string=_INDEX,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    app.layout = lambda: shell.shell(store.labels(), watching=store.watching)
    _register_route(app, store)
    _register_header(app)
    _register_tables(app)
    register_runs(app, store)
    _register_open_rows(app)
    register_findings(app, store)
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
    install_routes(app.server, store)
    return app


def _register_route(app: dash.Dash, store: Store) -> None:
    @app.callback(
        Output("page", "children"),
        Output("menu", "children"),
        Output("poll", "disabled"),
        Output("shown", "data"),
        Output("theme", "forceColorScheme"),
        Output("themed", "data-ag-theme-mode"),
        Output("title", "data"),
        Output("goto", "data"),
        Input("url", "search"),
        asked("poll"),
        Input("run", "data"),
        Input("os-dark", "data"),
        State("shown", "data"),
    )
    def route(search: str | None, _polls: int | None, _names: Any, os_dark: bool | None, shown: Any) -> Any:
        state = read_state(search)
        names = store.names()
        if not state.get("run") and names:
            # The address names the run, so that it stays whatever runs appear.
            other = [each for each in names if each != state.get(BASE)]
            return (*(no_update,) * 7, search_of(state, run=(other or names)[0]))
        page = BY_KEY.get(state.get("page", ""), _first_page(store))
        theme = theme_of(state, os_dark)
        content, status, report = _content(page, state, store, theme)
        key = [status, page.key, theme, *(state.get(each, "") for each in ("run", BASE, *page.keys))]
        if key == shown:
            return (no_update,) * 8
        built = restored(content(), state) if callable(content) else content
        label = store.labels().get(state.get("run", ""), state.get("run", ""))
        return (
            built,
            shell.menu(PAGES, {**state, "page": page.key}, _counts(report)),
            not status.startswith(("loading", COMPARING)),
            key,
            theme,
            theme,
            " · ".join(filter(None, [page.title, short(label), "tpuprof"])),
            no_update,
        )

    register_asking(app, "poll")
    _register_browser_side(app)


def _register_browser_side(app: dash.Dash) -> None:
    """What the browser does by itself: the tab's title, a way to another page, the system's dark mode."""
    for function, store_id in (("setTitle", "title"), ("goTo", "goto")):
        app.clientside_callback(
            ClientsideFunction("tpuprof", function),
            Output(store_id, "modified_timestamp"),
            Input(store_id, "data"),
            prevent_initial_call=True,
        )
    app.clientside_callback(
        ClientsideFunction("tpuprof", "osDark"), Output("os-dark", "data"), Input("url", "pathname")
    )


def _first_page(store: Store) -> Page:
    """Where an address without a page leads: to the watched job where there is nothing else."""
    alone = not store.names() and watched_folders(store.given())
    return BY_KEY["job"] if alone else PAGES[0]


def _content(page: Page, state: dict[str, str], store: Store, theme: str) -> tuple[Any, str, Report | None]:
    """What a page shows (or how to make it), its status, and the run's Report where there is one."""
    name = state.get("run", "")
    of_store = page.of_store
    if of_store is not None:
        known = store.report(name) if name else None
        counted = None if isinstance(known, (Failure, Loading)) else known
        return (lambda: [*shell.page_head(page, predicted=False), *of_store(store)]), "ready", counted
    if not name:
        return shell.nothing_yet(), "waiting", None
    report = store.report(name)
    if isinstance(report, (Failure, Loading)):
        return _not_ready(name, report, store)
    saved = store.is_saved(name)
    details = store.details(name) if page.needs_details else None
    if isinstance(details, (Failure, Loading)):
        return _not_ready(name, details, store)
    base = wanted_base(state, page)
    against = store.comparison(base, name) if base else None
    view = View(
        state,
        name,
        report,
        store,
        details,
        saved,
        theme,
        against if isinstance(against, Comparison) else None,
    )
    head = [] if page is PAGES[0] else shell.page_head(page, predicted=report.predicted)
    head += [shell.uploaded_note()] if store.is_upload(name) else []
    head += [base_note(against, short(store.labels().get(base, base)), view)] if against is not None else []
    status = COMPARING if isinstance(against, Loading) else "ready"
    return (
        lambda: [
            *head,
            *page.render(view),
            *changes_shown(against, page, view.template),
            *made_from(view, page),
        ],
        f"{status} {id(report)} {id(view.against)}",
        report,
    )


def _not_ready(name: str, what: Failure | Loading, store: Store) -> tuple[Any, str, None]:
    if isinstance(what, Loading):
        label = store.labels().get(name, name)
        return shell.loading(label, what.done, what.doing, what.seconds), f"loading {what}", None
    shown = [*shell.failed(name, what.message), *([shell.uploaded_note()] if store.is_upload(name) else [])]
    return shown, f"failed: {what.message}", None


def _counts(report: Report | None) -> dict[str, int]:
    if report is None:
        return {}
    failed = sum(each.status == "failed" for each in report.findings)
    return {"findings": failed, "compiles": len(report.compiles)}


def _register_header(app: dash.Dash) -> None:
    @app.callback(
        Output("run", "value"),
        Output("base", "value"),
        Output("base", "data"),
        Output("dark", "checked"),
        Input("url", "search"),
        Input("run", "data"),
        Input("os-dark", "data"),
    )
    def follow(search: str | None, runs: Any, os_dark: bool | None) -> Any:
        state = read_state(search)
        return state.get("run"), state.get(BASE), runs, theme_of(state, os_dark) == "dark"

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("run", "value"),
        Input("base", "value"),
        Input("dark", "checked"),
        State("url", "search"),
        State("os-dark", "data"),
        prevent_initial_call=True,
    )
    def change(
        name: str | None, base: str | None, dark: bool | None, search: str | None, os_dark: bool | None
    ) -> Any:
        state = read_state(search)
        if ctx.triggered_id == "run" and name and state.get("run") and name != state["run"]:
            kept = {key: value for key, value in state.items() if key in ("page", "theme", BASE)}
            return search_of(kept, run=name)
        if ctx.triggered_id == "base" and (base or "") != state.get(BASE, ""):
            return search_of(state, **{BASE: base})
        if ctx.triggered_id == "dark" and bool(dark) != (theme_of(state, os_dark) == "dark"):
            wanted = "dark" if dark else "light"
            return search_of(state, theme=None if wanted == theme_of({}, os_dark) else wanted)
        return no_update

    @app.callback(
        Output("frame", "navbar"), Input("burger", "opened"), Input("url", "search"), State("frame", "navbar")
    )
    def open_menu(opened: bool | None, _search: str | None, navbar: dict[str, Any]) -> Any:
        collapsed = not opened or ctx.triggered_id == "url"
        return {**navbar, "collapsed": {"mobile": collapsed}}


def _register_tables(app: dash.Dash) -> None:
    app.clientside_callback(
        ClientsideFunction("tpuprof", "exportCsv"),
        Output({"type": "csv", "table": MATCH}, "data-exported"),
        Input({"type": "csv", "table": MATCH}, "n_clicks"),
        State({"type": "table", "table": MATCH}, "id"),
        prevent_initial_call=True,
    )


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
