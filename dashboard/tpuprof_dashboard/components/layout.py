"""Pieces pages are made of: sections, tiles, empty states, links."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html


def section(title: str, *children: Any, note: str = "") -> Any:
    """A titled part of a page, with one line on what it shows."""
    head = [dmc.Title(title, order=3)]
    if note:
        head.append(dmc.Text(note, c="dimmed", size="sm", maw=900))
    return html.Section([*head, html.Div(list(children), style={"marginTop": 8})], style={"marginTop": 28})


def empty(title: str, reason: str, advice: str = "") -> Any:
    """What stands where there is nothing to show: why, and what to capture."""
    text = [dmc.Text(_prose(reason), className="tpu-wrap")]
    if advice:
        text.append(dmc.Text(_prose(advice), size="sm", mt=4))
    return dmc.Alert(text, title=title, color="gray", variant="light", my="sm")


def _prose(text: str) -> list[Any]:
    """Text in which what stands between backquotes is code; both are shown as they are."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return [text]
    return [dmc.Code(each) if number % 2 else each for number, each in enumerate(pieces)]


def predicted_note() -> Any:
    """Says that a run's device times are no measurement."""
    note = "Device times are the compiler's estimate of a run on TPU, not a measurement."
    return dmc.Alert(note, title="Predicted", color="red", my="xs")


def tile(title: str, value: str, note: str, definition: str = "") -> Any:
    """One figure: its name, its value, and what it is."""
    inside = [
        dmc.Text(title, size="sm", c="dimmed"),
        dmc.Text(value, size="xl", fw=700, style={"lineHeight": 1.3}),
        dmc.Text(note, size="xs", className="tpu-wrap"),
    ]
    paper = dmc.Paper(inside, withBorder=True, p="sm", className="tpu-tile", radius="md")
    if not definition:
        return paper
    return dmc.Tooltip(
        paper,
        label=definition,
        multiline=True,
        w=260,
        withArrow=True,
        boxWrapperProps={"w": "100%", "h": "100%", "tabIndex": 0},
        events={"hover": True, "focus": True, "touch": True},
    )


def tiles(*each: Any) -> Any:
    """Tiles side by side."""
    return dmc.SimpleGrid(list(each), cols={"base": 2, "sm": 3, "lg": 5}, my="md", spacing="sm")


def link(title: str, search: str, **more: Any) -> Any:
    """A link within the page: `search` is the query it leads to."""
    return dmc.Anchor(title, href=search, refresh=False, size="sm", **more)


def chart(figure: Any, chart_id: Any, label: str) -> Any:
    """A figure, told to screen readers by `label`."""
    graph = dcc.Graph(
        figure=figure,
        id=chart_id,
        config={"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["select2d", "lasso2d"]},
    )
    return html.Div(graph, role="img", **{"aria-label": label})


def code(text: str, code_id: str) -> Any:
    """Code with a button that copies it; the text is shown as it is."""
    copy = dcc.Clipboard(
        content=text, title="copy", style={"position": "absolute", "top": 6, "right": 8, "cursor": "pointer"}
    )
    block = dmc.Code(text, block=True, className="tpu-code")
    return html.Div([block, copy], id=code_id, style={"position": "relative"})


def facts(rows: list[tuple[str, str]]) -> Any:
    """A two-column table of names and values."""
    body = [
        dmc.TableTr(
            [dmc.TableTd(name, style={"whiteSpace": "nowrap"}), dmc.TableTd(value, className="tpu-wrap")]
        )
        for name, value in rows
    ]
    return dmc.Table([dmc.TableTbody(body)], withTableBorder=True, striped="odd", fz="sm")
