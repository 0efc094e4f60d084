"""Pieces pages are made of: sections, tiles, empty states, links, plain tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import MATCH, ClientsideFunction, Input, Output, dcc, html

if TYPE_CHECKING:
    from dash import Dash

# What charts of plotly may offer: its own choice of buttons has one that uploads the chart to a site of plotly's.
CHART_CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "responsive": True,
    "plotlyServerURL": "",
    "showSendToCloud": False,
    "showEditInChartStudio": False,
    "modeBarButtons": [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]],
}
# Characters of a tile's note that its two lines hold.
_NOTE_FITS = 50


def section(title: str, *children: Any, note: str = "") -> Any:
    """A titled part of a page, with one line on what it shows."""
    head = [dmc.Title(title, order=2, size="h4")]
    if note:
        head.append(dmc.Text(note, c="dimmed", size="sm", maw=900))
    beside = dmc.Group(head, gap="sm", align="baseline")
    return html.Section([beside, html.Div(list(children), style={"marginTop": 6})], style={"marginTop": 20})


def empty(title: str, reason: str, advice: str = "") -> Any:
    """What stands where there is nothing to show: why, and what to capture."""
    text = [dmc.Text(prose(reason), size="sm", className="tpu-wrap")]
    if advice:
        text.append(dmc.Text(prose(advice), size="sm", mt=4))
    return dmc.Alert(text, title=title, color="gray", variant="light", my="sm")


def prose(text: str) -> list[Any]:
    """Text in which what stands between backquotes is code; both are shown as they are."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return [text]
    return [dmc.Code(each) if number % 2 else each for number, each in enumerate(pieces)]


def predicted_note() -> Any:
    """Says that a run's device times are not measured."""
    note = "Predicted: device times are the compiler's estimate of a run on TPU, not a measurement."
    return dmc.Alert(note, color="red", my="xs", py="xs")


def tile(title: str, value: str, note: str, definition: str = "") -> Any:
    """One figure: its name, its value, and what it is."""
    inside = [
        dmc.Text(title, size="xs", c="dimmed"),
        dmc.Text(value, size="lg", fw=700, style={"lineHeight": 1.25}),
        dmc.Text(prose(note), size="xs", lineClamp=2, className="tpu-wrap", style={"lineHeight": 1.3}),
    ]
    paper = dmc.Paper(inside, withBorder=True, px="sm", py=6, className="tpu-tile", radius="md")
    if not definition:
        return paper
    return dmc.Tooltip(
        paper,
        # A note that is cut is whole here.
        label=f"{definition} {note}" if len(note) > _NOTE_FITS else definition,
        multiline=True,
        withinPortal=False,
        w=260,
        withArrow=True,
        boxWrapperProps={"w": "100%", "h": "100%", "tabIndex": 0},
        events={"hover": True, "focus": True, "touch": True},
    )


def tiles(*each: Any) -> Any:
    """Tiles side by side."""
    return dmc.SimpleGrid(list(each), cols={"base": 2, "sm": 3, "lg": 5}, my="sm", spacing="xs")


def link(title: str | list[Any], search: str, **more: Any) -> Any:
    """A link within the page: `search` is the query it leads to."""
    return dmc.Anchor(title, href=search, refresh=False, size="sm", **more)


def current(chosen: bool) -> dict[str, str]:
    """What tells screen readers that a link of several is the chosen one."""
    return {"aria-current": "true"} if chosen else {}


def chart(figure: Any, chart_id: Any, label: str) -> Any:
    """A figure, described to screen readers by `label`."""
    return html.Div(_graph(figure, chart_id), role="figure", **{"aria-label": label})


def chart_after_words(figure: Any, chart_id: str, label: str) -> Any:
    """A figure that is drawn once the words around it have been painted; its room is kept free until then."""
    slot = html.Div(
        id={"type": "late", "chart": chart_id},
        role="figure",
        style={"minHeight": figure.layout.height},
        **{"aria-label": label},
    )
    return html.Div(
        [
            slot,
            dcc.Store(
                id={"type": "late-chart", "chart": chart_id}, data=_graph(figure, chart_id).to_plotly_json()
            ),
        ]
    )


def register_charts_after_words(app: Dash) -> None:
    """Let charts of `chart_after_words` appear."""
    app.clientside_callback(
        ClientsideFunction("tpuprof", "wordsFirst"),
        Output({"type": "late", "chart": MATCH}, "children"),
        Input({"type": "late-chart", "chart": MATCH}, "data"),
    )


def _graph(figure: Any, chart_id: Any) -> Any:
    return dcc.Graph(
        figure=figure,
        id=chart_id,
        config=CHART_CONFIG,
    )


def code(text: str, code_id: str) -> Any:
    """Code with a button that copies it; the text is shown as it is."""
    copy = dmc.CopyButton(
        "Copy",
        value=text,
        copiedChildren="Copied",
        size="compact-xs",
        variant="default",
        pos="absolute",
        top=6,
        right=8,
    )
    block = html.Pre(text, className="tpu-code", tabIndex=0)
    return html.Div([block, copy], id=code_id, style={"position": "relative"})


def facts(table_id: str, rows: list[tuple[str, str]]) -> Any:
    """A two-column table of names and values."""
    body = [
        dmc.TableTr(
            [
                dmc.TableTd(name, style={"whiteSpace": "nowrap"}),
                dmc.TableTd(prose(value), className="tpu-wrap"),
            ]
        )
        for name, value in rows
    ]
    return _with_csv(
        table_id, dmc.Table([dmc.TableTbody(body)], withTableBorder=True, striped="odd", fz="sm")
    )


def plain_table(table_id: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Any:
    """A table whose cells may be components; it can be neither sorted nor filtered, but exported.

    The first cell of a row names it and keeps its words whole.
    """
    head = dmc.TableThead(dmc.TableTr([dmc.TableTh(name) for name in columns]))
    body = [
        dmc.TableTr([dmc.TableTd(row[0]), *(dmc.TableTd(cell, className="tpu-wrap") for cell in row[1:])])
        for row in rows
    ]
    inside = dmc.Table([head, dmc.TableTbody(body)], withTableBorder=True, fz="sm")
    return _with_csv(table_id, inside)


def number(text: str, value: float | None, unit: str = "") -> Any:
    """A cell that shows a number as people read it, and exports all of its digits, with its unit in the heading."""
    told = {"data-csv-value": repr(value), "data-csv-unit": unit}
    return html.Span(text, **({} if value is None else told))


def _with_csv(table_id: str, inside: Any) -> Any:
    """A table in the page with a button that exports it; `assets/csv.js` reads its cells."""
    button = dmc.Button(
        "CSV",
        size="compact-xs",
        variant="default",
        **{"data-csv": table_id, "aria-label": f"CSV of {table_id}"},
    )
    # Of a table wider than a phone, the table alone is scrolled, with the keyboard too.
    held = html.Div(
        inside,
        id=f"plain-{table_id}",
        className="tpu-scroll",
        tabIndex=0,
        role="region",
        **{"aria-label": f"Table {table_id.replace('-', ' ')}"},
    )
    return html.Div([dmc.Group(button, justify="flex-end", mb=4), held])
