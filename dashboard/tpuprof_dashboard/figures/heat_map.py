"""Hosts by steps: who is late when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from tpuprof_dashboard.words import plain

if TYPE_CHECKING:
    from tpuprof.report.pod import HeatMap

# Names of this many hosts fit beside the map (rows); of more, the one under the pointer is named.
NAMED_UP_TO = 40
# Colours end at this percentile of the cells: one step of a minute must not make all others look alike (percent).
_BRIGHTEST = 99.5


def heat_map(found: HeatMap, template: str = "plotly_white") -> go.Figure:
    """Lateness behind the middle host in ms, a row per host, a column per stretch of steps."""
    import numpy as np

    late = np.array(found.late_ms, np.float32)
    top = max(float(np.percentile(late, _BRIGHTEST)), 1e-3) if late.size else 1.0
    few = len(found.hosts) <= NAMED_UP_TO
    figure = go.Figure(
        go.Heatmap(
            z=late,
            x=found.steps,
            y=[plain(name) for name in found.hosts],
            zmin=0.0,
            zmax=top,
            colorscale="Cividis",
            colorbar={"title": {"text": "ms late"}},
            hovertemplate="%{y}, from step %{x}<br>%{z:.3f} ms behind the middle host<extra></extra>",
        )
    )
    figure.update_layout(
        template=template,
        xaxis={"title": "step"},
        yaxis={"autorange": "reversed", "showticklabels": few, "title": "" if few else "hosts, by name"},
        margin={"l": 60, "r": 20, "t": 10, "b": 45},
        height=min(max(14 * len(found.hosts), 240), 640),
    )
    return figure
