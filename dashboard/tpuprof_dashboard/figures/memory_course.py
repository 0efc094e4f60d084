"""Memory in use over a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from tpuprof.units import format_bytes
from tpuprof_dashboard.words import byte_unit, plain, short

if TYPE_CHECKING:
    from tpuprof.report.memory import MemoryMoment

# The capacity is drawn where the peak comes near enough for both to be read on one axis (share of the capacity).
_CAPACITY_FROM = 0.3


def memory_course(
    moments: list[MemoryMoment], capacity: int | None, template: str = "plotly_white"
) -> go.Figure:
    """Bytes in use at each moment as an area; the capacity as a line where the peak is near it."""
    peak = max(each.bytes for each in moments)
    size, unit = byte_unit(peak)
    figure = go.Figure()
    figure.add_scatter(
        x=[each.order for each in moments],
        y=[each.bytes / size for each in moments],
        mode="lines",
        line={"shape": "hv", "color": "#0072B2"},
        fill="tozeroy",
        fillcolor="rgba(0,114,178,0.25)",
        name="in use",
        hovertext=[
            f"<b>{plain(short(each.op))}</b><br>{format_bytes(each.bytes)} in use" for each in moments
        ],
        hovertemplate="%{hovertext}<extra></extra>",
    )
    if capacity is not None and peak >= _CAPACITY_FROM * capacity:
        figure.add_hline(
            y=capacity / size,
            line={"color": "#D55E00", "dash": "dash"},
            annotation_text="capacity",
            annotation_position="bottom left",
        )
    figure.update_layout(
        template=template,
        xaxis={"title": "place in the program (allocations and frees, in order)"},
        yaxis={"title": unit, "rangemode": "tozero"},
        margin={"l": 60, "r": 20, "t": 10, "b": 45},
        height=300,
        showlegend=False,
    )
    return figure
