"""Ops on a roofline: operational intensity against the rate they reached, under the device's peaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from tpuprof_dashboard.words import plain, short

if TYPE_CHECKING:
    from tpuprof.report.schema import OpRow

# Ops drawn at most, those with most self time first.
MAX_OPS = 400
# Mark, colour and title of ops by what limits them.
_LIMITS = {
    "memory": ("diamond", "#0072B2", "limited by memory bandwidth"),
    "compute": ("circle", "#009E73", "limited by compute"),
}


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
    longest = max(op.self_ms for op in told)
    figure = go.Figure([_roof(told, peak_flops, peak_bytes)])
    for limit in _LIMITS:
        figure.add_trace(_points([op for op in told if op.limit == limit], limit, longest))
    figure.update_layout(
        template=template,
        xaxis={"title": "FLOP per byte", "type": "log"},
        yaxis={"title": "FLOP/s", "type": "log", "exponentformat": "SI"},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        margin={"l": 70, "r": 20, "t": 10, "b": 45},
        height=380,
    )
    return figure


def _roof(told: list[OpRow], peak_flops: float, peak_bytes: float) -> go.Scatter:
    """The device's peak, from left of the ops to right of them."""
    ridge = peak_flops / peak_bytes
    x = [*(op.flops_per_byte or 0.0 for op in told), ridge]
    low, high = min(x) / 3, max(x) * 3
    return go.Scatter(
        x=[low, ridge, high],
        y=[low * peak_bytes, peak_flops, peak_flops],
        mode="lines",
        name="the device's peak",
        line={"color": "#868E96", "dash": "dash"},
        hovertemplate="%{y:.3s}FLOP/s<extra>the device's peak</extra>",
    )


def _points(ops: list[OpRow], limit: str, longest: float) -> go.Scatter:
    """Ops of one side of the roof."""
    symbol, colour, name = _LIMITS[limit]
    return go.Scatter(
        x=[op.flops_per_byte or 0.0 for op in ops],
        y=[op.flops_per_s for op in ops],
        mode="markers",
        name=name,
        marker={
            "symbol": symbol,
            "color": colour,
            "opacity": 0.8,
            "size": [6 + 26 * (op.self_ms / longest) ** 0.5 for op in ops],
        },
        hovertext=[
            f"<b>{plain(short(op.name))}</b><br>{plain(op.category)}<br>"
            f"{op.self_ms:,.3f} ms self<br>{plain(short(op.source))}"
            for op in ops
        ],
        hovertemplate="%{hovertext}<br>%{x:.3g} FLOP/byte, %{y:.3s}FLOP/s<extra></extra>",
    )
