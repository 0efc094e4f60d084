"""Each step's breakdown as a stack of bars, in step order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from tpuprof.render.charts import axis_top
from tpuprof.units import format_ms
from tpuprof_dashboard.figures.part_style import marker_of
from tpuprof_dashboard.words import part_title, plain, short

if TYPE_CHECKING:
    from tpuprof.report.schema import Report, StepRow

# Bars drawn at most (steps): a browser draws some thousand rectangles smoothly, and each step has a few parts.
MAX_STEPS_DRAWN = 500
# Parts below this share of all step time are not drawn by name in the legend (share); they are still drawn.
_LEGEND_FROM_SHARE = 0.001
# Bars of more steps than this are drawn without patterns (steps): they are narrower than a pattern repeats (8 pixels)
# and take a browser longer. Hover and the Steps page name the parts.
_PATTERNED_UP_TO = 120

# Room above the longest bar for its mark (times that bar).
_HEADROOM = 1.06
# Stands above the bar of a step that stands out.
OUTLIER_MARK = "▼"


def step_stack(report: Report, template: str = "plotly_white") -> go.Figure:
    """One bar per step, stacked by part, in ms. Of more steps than can be drawn, the first are shown, and it says so.

    A bar's customdata is its step's position in the report. Steps that stand out carry a mark. The axis ends where
    that of a report does: a step that goes beyond says how long it is.
    """
    steps = report.steps.per_step
    shown = steps[:MAX_STEPS_DRAWN]
    names = [name for name, part in report.breakdown.items() if part.share > 0]
    many_hosts = len({each.host for each in shown}) > 1
    labels = [f"{step.index} {short(step.host, 24)}" if many_hosts else f"{step.index}" for step in shown]
    figure = go.Figure()
    for name in names:
        title = plain(short(part_title(name), 40))
        figure.add_bar(
            name=title,
            x=[plain(label) for label in labels],
            y=[step.breakdown_ms.get(name, 0.0) for step in shown],
            customdata=list(range(len(shown))),
            marker=marker_of(name, plain=len(shown) > _PATTERNED_UP_TO),
            showlegend=report.breakdown[name].share >= _LEGEND_FROM_SHARE,
            hovertemplate=f"step %{{x}}<br>{title}: %{{y:.3f}} ms<extra></extra>",
        )
    top = axis_top([step.wall_ms for step in shown]) if shown else 0.0
    _mark(figure, report, shown, top)
    every = report.steps.all_hosts
    title = f"step (the first {MAX_STEPS_DRAWN} listed, of {every})" if every > len(shown) else "step"
    figure.update_layout(
        template=template,
        barmode="stack",
        bargap=0.08,
        xaxis={"title": title, "type": "category", "nticks": 20},
        yaxis={"title": "wall time (ms)", "rangemode": "tozero", "range": [0, top * _HEADROOM]},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        margin={"l": 60, "r": 20, "t": 5, "b": 40},
        height=260,
        showlegend=True,
    )
    return figure


def _mark(figure: go.Figure, report: Report, shown: list[StepRow], top: float) -> None:
    """Mark steps that stand out, and say how long those are that go beyond the axis, which ends at `top` (ms)."""
    outliers = _outliers(report, len(shown))
    for position, step in enumerate(shown):
        beyond = step.wall_ms > top
        text = f"↑ {format_ms(step.wall_ms)}" if beyond else OUTLIER_MARK if position in outliers else ""
        if text:
            figure.add_annotation(
                x=position, y=min(step.wall_ms, top), text=text, showarrow=False, yanchor="top" if beyond else "bottom",
                **({"bgcolor": "rgba(255,255,255,.85)", "font": {"color": "#222"}} if beyond else {}),
            )  # fmt: skip


def _outliers(report: Report, drawn: int) -> set[int]:
    """Positions of the drawn steps that the model says stand out."""
    known = {(each.host, each.start_ns) for each in report.steadiness.outliers}
    rows = report.steps.per_step[:drawn]
    return {row for row, step in enumerate(rows) if (step.host, step.start_ns) in known}
