"""Charts as inline SVG: the breakdown bar and the stack of every step. Names reach the SVG escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from tpuprof.parts import style_of
from tpuprof.report.labels import of_steps
from tpuprof.shown_text import printable
from tpuprof.units import format_ms, format_share

if TYPE_CHECKING:
    from tpuprof.report.schema import Part, Report

WIDTH, HEIGHT = 960, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 18, 40
BAR_HEIGHT = 34
# Bars drawn at most; of more steps, each bar is the mean of neighbours (bars).
MAX_BARS = 240
# The axis ends here if a step goes beyond, so that one compile does not flatten all others (times the median).
AXIS_TIMES_MEDIAN = 4.0
# Parts below this share of all time are drawn together as "below" (share).
MIN_PART_SHARE = 0.002
_TICKS = 4


@dataclass(frozen=True)
class Bar:
    """One bar: its label, wall time in ms, and parts (name, ms) from the bottom up."""

    label: str
    wall_ms: float
    parts: list[tuple[str, float]]


def breakdown_bar(report: Report) -> str:
    """The mean step as one horizontal bar, widths being shares of step time."""
    x = 0.0
    body = []
    for name, part in _ranked(report):
        width = part.share * WIDTH
        if width >= 0.5:
            time = of_steps(f"{format_ms(part.ms_per_step)} per step", report)
            title = f"{name}: {format_share(part.share)}, {time}"
            label = text(x + 6, BAR_HEIGHT / 2 + 4, format_share(part.share), "in") if width > 54 else ""
            body.append(rect(x, 0, width, BAR_HEIGHT, name, title) + label)
        x += width
    told = of_steps("Where a step's time goes: ", report) + ", ".join(
        f"{name} {format_share(part.share)}" for name, part in _ranked(report)
    )
    return svg(WIDTH, BAR_HEIGHT, told, body, _ranked_names(report))


def step_stack(report: Report) -> str:
    """One bar per step in time order, stacked by part, in ms; empty where there are no steps."""
    bars = _bars(report)
    if not bars:
        return ""
    top = axis_top([bar.wall_ms for bar in bars])
    plot_width, plot_height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    slot = plot_width / len(bars)
    gap = min(3.0, slot * 0.15)
    body = _axis(top, plot_height)
    every = max(1, -(-len(bars) // 16))
    for index, bar in enumerate(bars):
        x = _LEFT + index * slot + gap / 2
        body += _stack(bar, x, slot - gap, top, plot_height)
        if index % every == 0:
            body.append(text(x + (slot - gap) / 2, HEIGHT - _BOTTOM + 16, bar.label, "mid"))
    body.append(text(_LEFT + plot_width / 2, HEIGHT - 4, _x_title(report, len(bars)), "mid"))
    told = f"Wall time of {len(report.steps.per_step)} steps, stacked by part"
    return svg(WIDTH, HEIGHT, told, body, _ranked_names(report))


def legend(report: Report) -> list[tuple[str, str]]:
    """(part, SVG swatch) of the parts drawn, largest first."""
    return [
        (name, svg(16, 16, name, [rect(0, 0, 16, 16, name, "")], [name])) for name in _ranked_names(report)
    ]


def _ranked(report: Report) -> list[tuple[str, Part]]:
    return sorted(
        ((name, part) for name, part in report.breakdown.items() if part.share > MIN_PART_SHARE),
        key=lambda item: -item[1].share,
    )


def _ranked_names(report: Report) -> list[str]:
    return [name for name, _ in _ranked(report)]


def _bars(report: Report) -> list[Bar]:
    steps = sorted(report.steps.per_step, key=lambda step: step.start_ns)
    names = _ranked_names(report)
    many_hosts = len({step.host for step in steps}) > 1
    bars = []
    for group in np.array_split(np.arange(len(steps)), min(len(steps), MAX_BARS)) if steps else []:
        rows = [steps[int(row)] for row in group]
        label = str(rows[0].index) + (f" {rows[0].host}" if many_hosts and len(rows) == 1 else "")
        parts = [(name, sum(row.breakdown_ms.get(name, 0.0) for row in rows) / len(rows)) for name in names]
        bars.append(Bar(label, sum(row.wall_ms for row in rows) / len(rows), parts))
    return bars


def _x_title(report: Report, bars: int) -> str:
    count = len(report.steps.per_step)
    listed = f", listed of {report.steps.all_hosts:,}" if report.steps.left_out else ""
    return (
        "step"
        if count == bars
        else f"step (each bar is the mean of about {count / bars:.0f} of {count} steps{listed})"
    )


def axis_top(walls: Sequence[float]) -> float:
    """Where the axis ends (ms): at the longest bar, or lower where that would flatten the usual ones."""
    longest, usual = max(walls), float(np.median(walls)) * AXIS_TIMES_MEDIAN
    return (usual if longest > 2 * usual > 0 else longest) or 1.0


def _axis(top: float, plot_height: float) -> list[str]:
    lines = []
    for tick in range(_TICKS + 1):
        y = _TOP + plot_height * (1 - tick / _TICKS)
        lines.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(text(_LEFT - 8, y + 4, format_ms(top * tick / _TICKS), "end"))
    return lines


def _stack(bar: Bar, x: float, width: float, top: float, plot_height: float) -> list[str]:
    body, done = [], 0.0
    detail = ", ".join(
        f"{name} {format_ms(ms)}" for name, ms in sorted(bar.parts, key=lambda p: -p[1])[:4] if ms
    )
    title = f"step {bar.label}: {format_ms(bar.wall_ms)} ({detail})"
    for name, ms in bar.parts:
        low, high = min(done, top), min(done + ms, top)
        height = (high - low) / top * plot_height
        if height > 0.05:
            y = _TOP + plot_height * (1 - high / top)
            body.append(rect(x, y, width, height, name, title))
        done += ms
    if bar.wall_ms > top * 1.001:
        body.append(text(x + width / 2, _TOP - 5, f"↑ {format_ms(bar.wall_ms)}", "mid over"))
    return body


def rect(x: float, y: float, width: float, height: float, part: str, title: str) -> str:
    """A rectangle in a part's colour and pattern; `title` is shown by the pointer."""
    colour, hatching = style_of(part)
    place = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
    tip = f"<title>{_escape(title)}</title>" if title else ""
    over = f'<rect {place} fill="url(#{_hatch_id(hatching)})" pointer-events="none"/>' if hatching else ""
    return f'<rect {place} fill="{colour}">{tip}</rect>{over}'


def text(x: float, y: float, words: str, classes: str) -> str:
    """A text at that place, escaped."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{classes}">{_escape(words)}</text>'


def svg(width: float, height: float, label: str, body: list[str], parts: list[str]) -> str:
    """A drawing of its own, with the patterns of these parts; `label` is what screen readers say."""
    hatchings = sorted({style_of(part)[1] for part in parts} - {""})
    defs = "".join(_hatch(each) for each in hatchings)
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{_escape(label)}">'
        f"<defs>{defs}</defs>{''.join(body)}</svg>"
    )


_HATCH_PATHS = {
    "/": "M0,8 L8,0",
    "\\": "M0,0 L8,8",
    "x": "M0,0 L8,8 M0,8 L8,0",
    "|": "M4,0 L4,8",
    "-": "M0,4 L8,4",
    ".": "M3.5,4 L4.5,4",
}


def _hatch_id(hatching: str) -> str:
    return f"h{ord(hatching)}"


def _hatch(hatching: str) -> str:
    return (
        f'<pattern id="{_hatch_id(hatching)}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<path class="hatch" d="{_HATCH_PATHS[hatching]}"/></pattern>'
    )


def _escape(text: str) -> str:
    return escape(printable(text), quote=True)
