"""Builds the Dash app for one or more analysed runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import dash
import dash_mantine_components as dmc
from dash import MATCH, Input, Output, dcc, html

from tpuprof_dashboard.components.overview import overview

if TYPE_CHECKING:
    from tpuprof.report.schema import Report


def create_app(reports: dict[str, Report]) -> dash.Dash:
    """An app that shows these reports, by name. It fetches nothing from other sites."""
    dmc.add_figure_templates(default="mantine_light")
    app = dash.Dash(
        __name__, title="tpuprof", update_title=None, serve_locally=True, suppress_callback_exceptions=True
    )
    app.layout = dmc.MantineProvider(_shell(list(reports)), id="theme", forceColorScheme="light")
    _register(app, reports)
    return app


def _shell(names: list[str]) -> Any:
    choose = dmc.Select(id="run", data=names, value=names[0], label="Run", w=420, allowDeselect=False)
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            dmc.Container(choose, size="xl", pt="md"),
            html.Div(id="page"),
        ]
    )


def _register(app: dash.Dash, reports: dict[str, Report]) -> None:
    first = next(iter(reports))

    @app.callback(Output("run", "value"), Input("url", "search"))
    def select_run(search: str | None) -> str:
        wanted = parse_qs((search or "").removeprefix("?")).get("run", [first])[0]
        return wanted if wanted in reports else first

    @app.callback(Output("page", "children"), Input("run", "value"))
    def show_run(name: str | None) -> Any:
        return overview(reports[name if name in reports else first])

    @app.callback(
        Output({"type": "table", "table": MATCH}, "exportDataAsCsv"),
        Input({"type": "csv", "table": MATCH}, "n_clicks"),
        prevent_initial_call=True,
    )
    def export(clicks: int | None) -> bool:
        return bool(clicks)
