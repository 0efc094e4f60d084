"""The host's time by sampled Python stack, as an icicle: exposed beside hidden."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from tpuprof.render.flame import HIDDEN, Cell, short_frame
from tpuprof_dashboard.figures.part_style import style_of
from tpuprof_dashboard.words import part_title, plain, short

ROOT = "training thread"
# Height of a frame and of what stands around them, and the tallest figure (pixels).
_ROW, _AROUND, _TALLEST = 22, 60, 720
# Cells drawn at most, the largest (cells).
MAX_CELLS = 2000
# How visible time is that costs nothing (alpha, as two digits of a colour).
_FAINT = "66"


def flame(cells: Sequence[Cell], template: str = "plotly_white") -> go.Figure:
    """One cell per frame, in ms per step: a click goes into a frame. Hidden time is faint."""
    chosen = sorted(range(len(cells)), key=lambda row: -cells[row].ms)[:MAX_CELLS]
    shown = sorted(chosen)
    own = {row: cells[row].ms for row in shown}
    for row in shown:
        if cells[row].parent >= 0:
            own[cells[row].parent] -= cells[row].ms
    figure = go.Figure(
        go.Icicle(
            ids=["root", *map(str, shown)],
            labels=[ROOT, *(plain(short(short_frame(cells[row].name), 60)) for row in shown)],
            parents=["", *("root" if cells[row].parent < 0 else str(cells[row].parent) for row in shown)],
            # What inner frames leave, so that no rounding makes a frame smaller than those in it.
            values=[0.0, *(max(own[row], 0.0) for row in shown)],
            branchvalues="remainder",
            customdata=[["", "", ""], *(_hover(cells[row]) for row in shown)],
            hovertemplate="%{customdata[0]}<br>%{customdata[1]}<br>mostly %{customdata[2]}<extra></extra>",
            marker={"colors": ["rgba(0,0,0,0)", *(_colour(cells[row]) for row in shown)]},
            tiling={"orientation": "v", "pad": 1},
            sort=False,
        )
    )
    depth = max((each.depth for each in cells), default=0) + 2
    height = min(depth * _ROW + _AROUND, _TALLEST)
    figure.update_layout(template=template, height=height, margin={"l": 8, "r": 8, "t": 24, "b": 8})
    return figure


def _hover(cell: Cell) -> list[str]:
    told = f"{cell.ms:.3f} ms per step, {cell.branch}"
    return [plain(short(cell.name, 160)), told, plain(part_title(cell.part))]


def _colour(cell: Cell) -> str:
    colour = style_of(cell.part)[0]
    return colour + _FAINT if cell.branch == HIDDEN else colour
