"""Each step's breakdown as a stack of bars, in step order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from tpuprof_dashboard.figures.part_style import style_of

if TYPE_CHECKING:
    from tpuprof.report.schema import Report

# Bars drawn at most (steps): a browser draws some thousand rectangles smoothly, and each step has a few parts.
MAX_STEPS_DRAWN = 500


def step_stack(report: Report) -> go.Figure:
    """One bar a step, stacked by part, in ms. Of more steps than can be drawn, the first are shown, and it says so."""
    steps = report.steps.per_step
    shown = steps[:MAX_STEPS_DRAWN]
    names = [name for name, part in report.breakdown.items() if part.share > 0]
    labels = [
        f"{step.index}" if len({each.host for each in shown}) == 1 else f"{step.index} {step.host}"
        for step in shown
    ]
    figure = go.Figure()
    for name in names:
        colour, pattern = style_of(name)
        figure.add_bar(
            name=name,
            x=labels,
            y=[step.breakdown_ms.get(name, 0.0) for step in shown],
            marker={"color": colour, "pattern": {"shape": pattern, "solidity": 0.25}},
            hovertemplate=f"step %{{x}}<br>{_plain(name)}: %{{y:.3f}} ms<extra></extra>",
        )
    title = f"step (the first {MAX_STEPS_DRAWN} of {len(steps)})" if len(steps) > len(shown) else "step"
    figure.update_layout(
        barmode="stack",
        bargap=0.08,
        xaxis={"title": title, "type": "category"},
        yaxis={"title": "wall time (ms)"},
        legend={"orientation": "h", "y": -0.25},
        margin={"l": 60, "r": 20, "t": 10, "b": 40},
        height=380,
    )
    return figure


def _plain(text: str) -> str:
    """Text for plotly's hover, which reads some HTML and templates: both made harmless."""
    for old, new in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("%{", "% {")):
        text = text.replace(old, new)
    return text
