"""Time of each iteration of a loop, those that stand out marked."""

from __future__ import annotations

import plotly.graph_objects as go

_USUAL, _OUTLIER = "#009E73", "#D55E00"


def iterations(times_ms: list[float], outliers: list[int], template: str = "plotly_white") -> go.Figure:
    """A line over iterations in ms; outliers are diamonds of another colour."""
    chosen = [each for each in outliers if 0 <= each < len(times_ms)]
    figure = go.Figure()
    figure.add_scatter(
        x=list(range(len(times_ms))),
        y=times_ms,
        mode="lines+markers",
        name="iteration",
        line={"color": _USUAL},
        hovertemplate="iteration %{x}: %{y:,.3f} ms<extra></extra>",
    )
    if chosen:
        figure.add_scatter(
            x=chosen,
            y=[times_ms[each] for each in chosen],
            mode="markers",
            name="stands out",
            marker={"color": _OUTLIER, "symbol": "diamond", "size": 12},
            hovertemplate="iteration %{x} stands out: %{y:,.3f} ms<extra></extra>",
        )
    figure.update_layout(
        template=template,
        xaxis={"title": "iteration", "dtick": max(1, len(times_ms) // 20)},
        yaxis={"title": "ms", "rangemode": "tozero"},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        margin={"l": 60, "r": 20, "t": 10, "b": 45},
        height=300,
    )
    return figure
