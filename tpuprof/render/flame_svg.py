"""The host's time as inline SVG: one icicle, without script, with a title on each cell. Names are escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuprof.parts import title_of
from tpuprof.render.charts import WIDTH, rect, svg, text
from tpuprof.render.flame import HIDDEN, Cell, icicle, short_frame
from tpuprof.units import format_ms

if TYPE_CHECKING:
    from tpuprof.report.schema import Report

ROW_HEIGHT = 19
# Width of a character of a cell's text, and what stays free beside the text (pixels).
_CHARACTER, _MARGIN = 6.4, 8
# Cells drawn at most, the largest (cells): a page with more is slow to show.
MAX_CELLS = 1500


def flame_graph(report: Report) -> str:
    """The icicle of a report's sampled stacks; empty where it has none."""
    cells = icicle(report.host_stacks)
    if not cells:
        return ""
    total = sum(each.ms for each in cells if each.parent < 0)
    shown = sorted(cells, key=lambda each: -each.ms)[:MAX_CELLS]
    depth = max(each.depth for each in shown) + 1
    body = [_cell(each, WIDTH / total) for each in shown]
    label = f"The training thread's time by sampled Python stack, {format_ms(total)} per step"
    return svg(WIDTH, depth * ROW_HEIGHT, label, body, sorted({each.part for each in shown}))


def _cell(cell: Cell, scale: float) -> str:
    x, y, width = cell.start * scale, cell.depth * ROW_HEIGHT, cell.ms * scale
    title = f"{cell.name}: {format_ms(cell.ms)} per step, {cell.branch}; mostly {title_of(cell.part).lower()}"
    body = rect(x, y, max(width - 0.5, 0.5), ROW_HEIGHT - 1, cell.part, title)
    room = int((width - _MARGIN) / _CHARACTER)
    name = short_frame(cell.name)
    if room >= 4:
        name = name if len(name) <= room else name[: room - 1] + "…"
        body += text(x + _MARGIN / 2, y + ROW_HEIGHT - 6, name, "in")
    return f'<g class="hidden-time">{body}</g>' if cell.branch == HIDDEN else body
