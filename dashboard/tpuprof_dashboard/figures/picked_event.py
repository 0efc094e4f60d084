"""The picked event of a timeline: a frame around its bar, and arrows along the work that is handed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from tpuprof.units import PS_PER_MS

if TYPE_CHECKING:
    from tpuprof.timeline.event import EventDetails
    from tpuprof_dashboard.timeline_view import DrawnRow

# Half of a bar's height, which is 0.86 of a row.
_HALF = 0.43
# Colours that differ enough from the page and from bars, on light and on dark.
_LIGHT, _DARK = "#7B1E3A", "#FFD166"


@dataclass(frozen=True)
class Spot:
    """A place in the chart: the key of a lane, the row in that, and a time (ps)."""

    lane: str
    depth: int
    time: int


@dataclass(frozen=True)
class Picked:
    """The event that was picked: where it is, how long it lasts (ps), and the hand-overs from and to it."""

    spot: Spot
    duration: int
    arrows: list[tuple[Spot, Spot]] = field(default_factory=list)

    @staticmethod
    def of(details: EventDetails) -> Picked:
        """The picked event of details."""
        chosen = details.chosen
        arrows = [
            (Spot(each.source.lane.key, each.source.depth, each.source.at),
             Spot(each.target.lane.key, each.target.depth, each.target.start))
            for each in [*details.launched_by, *details.launches]
            if each.source.lane is not None and each.target.lane is not None
        ]  # fmt: skip
        return Picked(Spot(chosen.lane.key, chosen.depth, chosen.start), chosen.duration, arrows)


def picked_traces(rows: Sequence[DrawnRow], picked: Picked | None, template: str) -> list[Any]:
    """The frame and the arrows, in this order, always both: a page changes these two alone when an event is picked.

    An arrow is drawn where the lanes of both its ends are.
    """
    at = {(row.info.key, row.depth): position for position, row in enumerate(rows)}
    colour = _DARK if template.endswith("dark") else _LIGHT
    frame_x, frame_y, x, y, symbol = [], [], [], [], []
    if picked is not None and (picked.spot.lane, picked.spot.depth) in at:
        row = at[picked.spot.lane, picked.spot.depth]
        low, high = picked.spot.time / PS_PER_MS, (picked.spot.time + picked.duration) / PS_PER_MS
        frame_x = [low, high, high, low, low]
        frame_y = [row - _HALF, row - _HALF, row + _HALF, row + _HALF, row - _HALF]
    for source, target in picked.arrows if picked is not None else []:
        ends = (source.lane, source.depth), (target.lane, target.depth)
        if all(end in at for end in ends):
            x += [source.time / PS_PER_MS, target.time / PS_PER_MS, None]
            y += [at[ends[0]], at[ends[1]], None]
            symbol += ["circle", "arrow", "circle"]
    shared = {"hoverinfo": "skip", "showlegend": False}
    line = {"color": colour, "width": 3}
    return [
        go.Scatter(x=frame_x, y=frame_y, mode="lines", line=line, name="picked", **shared),
        go.Scatter(
            x=x,
            y=y,
            mode="lines+markers",
            line={"color": colour, "width": 2},
            marker={"color": colour, "size": 9, "symbol": symbol, "angleref": "previous"},
            name="hand-overs",
            **shared,
        ),
    ]
