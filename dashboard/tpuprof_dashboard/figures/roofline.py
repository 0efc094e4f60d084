"""Ops on a roofline: operational intensity against the rate they reached, under the device's peaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from tpuprof_dashboard.words import plain, short

if TYPE_CHECKING:
    from tpuprof.report.schema import OpRow

# Ops drawn at most, those with most self time first.
MAX_OPS = 400


def roofline(
    ops: list[OpRow], peak_flops: float, peak_bytes: float, template: str = "plotly_white"
) -> go.Figure | None:
    """FLOP per byte against FLOP/s, both logarithmic; a point's size is its share of self time.

    None where no op has a rate. The model says which side of the roof an op is on.
    Peaks in FLOP/s and bytes/s. (Williams, Waterman, Patterson: Roofline, 2009.)
    """
    told = [op for op in ops if op.flops_per_byte and op.flops_per_s][:MAX_OPS]
    if not told:
        return None
    x = [op.flops_per_byte or 0.0 for op in told]
    y = [op.flops_per_s for op in told]
    longest = max(op.self_ms for op in told)
    figure = go.Figure()
    ridge = peak_flops / peak_bytes
    low, high = min([*x, ridge]) / 3, max([*x, ridge]) * 3
    figure.add_scatter(
        x=[low, ridge, high],
        y=[low * peak_bytes, peak_flops, peak_flops],
        mode="lines",
        name="the device's peak",
        line={"color": "#868E96", "dash": "dash"},
        hovertemplate="%{y:.3s}FLOP/s<extra>the device's peak</extra>",
    )
    for name, symbol, colour, limit in (
        ("limited by memory bandwidth", "diamond", "#0072B2", "memory"),
        ("limited by compute", "circle", "#009E73", "compute"),
    ):
        rows = [row for row, op in enumerate(told) if op.limit == limit]
        figure.add_scatter(
            x=[x[row] for row in rows],
            y=[y[row] for row in rows],
            mode="markers",
            name=name,
            marker={
                "symbol": symbol,
                "color": colour,
                "opacity": 0.8,
                "size": [6 + 26 * (told[row].self_ms / longest) ** 0.5 for row in rows],
            },
            hovertext=[
                f"<b>{plain(short(told[row].name))}</b><br>{plain(told[row].category)}<br>"
                f"{told[row].self_ms:,.3f} ms self<br>{plain(short(told[row].source))}"
                for row in rows
            ],
            hovertemplate="%{hovertext}<br>%{x:.3g} FLOP/byte, %{y:.3s}FLOP/s<extra></extra>",
        )
    figure.update_layout(
        template=template,
        xaxis={"title": "FLOP per byte", "type": "log"},
        yaxis={"title": "FLOP/s", "type": "log", "exponentformat": "SI"},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        margin={"l": 70, "r": 20, "t": 10, "b": 45},
        height=380,
    )
    return figure
