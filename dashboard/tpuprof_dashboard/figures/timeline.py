"""A window of a timeline as horizontal bars, one row a level of nesting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from tpuprof.units import PS_PER_MS, format_ms, ps_to_ms
from tpuprof_dashboard.figures.part_style import marker_of
from tpuprof_dashboard.figures.picked_event import picked_traces
from tpuprof_dashboard.timeline_view import event_key, merged_key
from tpuprof_dashboard.words import part_title, plain, short

if TYPE_CHECKING:
    from tpuprof_dashboard.figures.picked_event import Picked
    from tpuprof_dashboard.timeline_view import Drawing, DrawnRow

# Height of a row and of what stands around the rows (screen pixels).
_ROW_HEIGHT = 24
_FRAME_HEIGHT = 130
# Characters of a bar's name that fit the window's width, at 12 pixels a letter and some 800 pixels; of a longer name
# at least so many must be seen, or it says nothing.
_CHARACTERS_ACROSS = 115
_LEAST_CHARACTERS = 7
_NAME_CHARACTERS = 90


def timeline(drawing: Drawing, template: str = "plotly_white", picked: Picked | None = None) -> go.Figure:
    """Bars of every row over ms from the run's origin, coloured and patterned by what they are.

    A bar's hover tells name, duration, how many events it stands for, program and source line. The first traces are
    those of the picked event, which lie above the bars.
    """
    figure = go.Figure(picked_traces(drawing.rows, picked, template))
    groups: dict[str, _Group] = {}
    for position, row in enumerate(drawing.rows):
        _add(groups, row, position, drawing)
    for name, group in sorted(groups.items()):
        figure.add_bar(
            name=plain(short(part_title(name), 30)),
            orientation="h",
            y=group.row,
            base=group.start,
            x=group.width,
            text=group.text,
            hovertext=group.hover,
            customdata=group.event,
            hovertemplate="%{hovertext}<extra></extra>",
            marker=marker_of(name, faint=True),
            textposition="inside",
            insidetextanchor="start",
            textangle=0,
            constraintext="none",
            cliponaxis=True,
            width=0.86,
        )
    _frame(figure, drawing, template)
    return figure


class _Group:
    """Columns of the bars that share a style."""

    def __init__(self) -> None:
        self.row: list[int] = []
        self.start: list[float] = []
        self.width: list[float] = []
        self.text: list[str] = []
        self.hover: list[str] = []
        self.event: list[str] = []


def _add(groups: dict[str, _Group], row: DrawnRow, position: int, drawing: Drawing) -> None:
    bars, window = row.bars, drawing.window
    width = window.end - window.start
    # Bars that leave the window are cut at its edges, so that their names stay in sight.
    start = np.maximum(bars.start, window.start)
    # A bar narrower than a pixel is drawn a pixel wide, or it could not be seen; its hover tells the truth.
    end = np.maximum(np.minimum(bars.end, window.end), start + drawing.pixel)
    titles: dict[int, str] = {}
    for at, label in enumerate(bars.label.tolist()):
        if label not in titles:
            titles[label] = part_title(row.lane.names[label])
        group = groups.setdefault(row.lane.groups[label], _Group())
        group.row.append(position)
        group.start.append(int(start[at]) / PS_PER_MS)
        length = int(end[at] - start[at])
        group.width.append(length / PS_PER_MS)
        group.text.append(_inside(titles[label], length / width))
        group.hover.append(_hover(row, at, label, titles[label]))
        group.event.append(_event(row, at))


def _event(row: DrawnRow, at: int) -> str:
    """What a click on a bar leads to: its event, or the window of those that were merged to it."""
    start = int(row.bars.start[at])
    if row.bars.count[at] > 1:
        return merged_key(start, int(row.bars.end[at]))
    return event_key(row.info.key, row.depth, start)


def _inside(title: str, share: float) -> str:
    """The name as far as the bar holds it."""
    fits = int(share * _CHARACTERS_ACROSS)
    if fits < min(len(title), _LEAST_CHARACTERS):
        return ""
    return plain(title if len(title) <= fits else f"{title[: fits - 1]}…")


def _hover(row: DrawnRow, at: int, label: int, title: str) -> str:
    bars = row.bars
    lines = [f"<b>{plain(short(title, _NAME_CHARACTERS))}</b>"]
    if bars.count[at] > 1:
        lines.append(
            f"and {int(bars.count[at]) - 1} more events, {format_ms(ps_to_ms(int(bars.busy[at])))} in all, "
            f"merged to one bar: zoom in to tell them apart"
        )
        lines.append(f"its own duration: {format_ms(ps_to_ms(int(bars.longest[at])))}")
    else:
        lines.append(format_ms(ps_to_ms(int(bars.busy[at]))))
    detail = row.lane.details[label]
    lines += [plain(short(each, _NAME_CHARACTERS)) for each in detail.split(" · ") if each]
    lines.append(f"starts {int(bars.start[at]) / PS_PER_MS:,.3f} ms")
    return "<br>".join(lines)


def _frame(figure: go.Figure, drawing: Drawing, template: str) -> None:
    rows, window = drawing.rows, drawing.window
    titles = [plain(short(row.info.title, 26)) if row.depth == 0 else "" for row in rows]
    titles = [
        f"<b>{title}</b>" if title and row.pinned else title for title, row in zip(titles, rows, strict=True)
    ]
    figure.update_layout(
        template=template,
        barmode="overlay",
        height=_FRAME_HEIGHT + _ROW_HEIGHT * max(len(rows), 3),
        margin={"l": 180, "r": 20, "t": 10, "b": 45},
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        showlegend=True,
        dragmode="zoom",
        hovermode="closest",
        hoverlabel={"align": "left"},
        uniformtext={"minsize": 9, "mode": "hide"},
    )
    figure.update_xaxes(
        title="ms from the start of the trace",
        range=[window.start / PS_PER_MS, window.end / PS_PER_MS],
        tickformat=",",
        showgrid=True,
    )
    figure.update_yaxes(
        tickmode="array",
        tickvals=list(range(len(rows))),
        ticktext=titles,
        range=[len(rows) - 0.5, -0.5],
        fixedrange=True,
        showgrid=False,
        zeroline=False,
    )
    for position, row in enumerate(rows):
        if row.depth == 0 and position:
            figure.add_hline(y=position - 0.5, line={"width": 1, "color": "rgba(128,128,128,0.4)"})
    shown = [each for each in window.marks if each[0] < window.end and each[1] > window.start]
    if shown:
        _mark(figure, shown, window.start, len(rows))


def _mark(figure: go.Figure, marks: list[tuple[int, int]], start: int, rows: int) -> None:
    """Shade spans over all rows; the first carries the label, in a row of its own: it could not be read on bars."""
    figure.update_yaxes(range=[rows - 0.5, -1.5])
    figure.update_layout(height=figure.layout.height + _ROW_HEIGHT)
    for low, high in marks:
        figure.add_vrect(
            x0=low / PS_PER_MS,
            x1=high / PS_PER_MS,
            fillcolor="rgba(213,94,0,0.15)",
            line={"color": "#D55E00", "width": 2, "dash": "dash"},
        )
    figure.add_annotation(
        x=max(min(low for low, _ in marks), start) / PS_PER_MS,
        y=-1,
        text="evidence",
        showarrow=False,
        xanchor="left",
        font={"color": "#D55E00", "size": 13},
    )
