"""Horizontal bars of named values, side by side or stacked."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from tpuprof_dashboard.words import plain, short

# Rows drawn at most; the table beside the chart has all.
MAX_ROWS = 25
_ROW_HEIGHT = 26
_FRAME_HEIGHT = 110


def stacked_bars(
    names: Sequence[str],
    parts: Sequence[tuple[str, Sequence[float], str, str]],
    unit: str,
    template: str = "plotly_white",
    *,
    mode: str = "stack",
) -> go.Figure:
    """One bar a name; `parts` are (title, values, colour, plotly pattern). The first `MAX_ROWS` names are drawn."""
    shown = [plain(short(name, 48)) for name in names[:MAX_ROWS]]
    figure = go.Figure()
    for title, values, colour, pattern in parts:
        figure.add_bar(
            name=plain(title),
            orientation="h",
            y=list(range(len(shown))),
            x=list(values[:MAX_ROWS]),
            hovertext=[plain(short(name, 100)) for name in names[:MAX_ROWS]],
            hovertemplate=f"%{{hovertext}}<br>{plain(title)}: %{{x:,.3f}} {plain(unit)}<extra></extra>",
            marker={"color": colour, "pattern": {"shape": pattern, "solidity": 0.25}},
        )
    figure.update_layout(
        template=template,
        barmode=mode,
        height=_FRAME_HEIGHT + _ROW_HEIGHT * max(len(shown), 2),
        margin={"l": 20, "r": 20, "t": 10, "b": 45},
        xaxis={"title": plain(unit), "rangemode": "tozero"},
        yaxis={
            "tickmode": "array",
            "tickvals": list(range(len(shown))),
            "ticktext": shown,
            "range": [len(shown) - 0.5, -0.5],
            "automargin": True,
        },
        legend={"orientation": "h", "traceorder": "normal", "y": 1.0, "yanchor": "bottom", "x": 0},
        showlegend=len(parts) > 1,
    )
    return figure
