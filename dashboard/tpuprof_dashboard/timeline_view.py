"""What a timeline shows: which lanes, which window, and the bars of both."""

from __future__ import annotations

from dataclasses import dataclass

from tpuprof.timeline.lanes import ANNOTATIONS, DEVICE, HOST, PERIODS, STEPS, Lane, LaneInfo
from tpuprof.timeline.level_of_detail import Bars, windows
from tpuprof.units import NS_PER_MS, PS_PER_NS

# Bars drawn at most: a browser draws and zooms some thousand rectangles smoothly.
MAX_BARS = 4_000
# Columns of pixels that bars are merged to: what a chart on a wide screen has.
PIXELS = 1_200
# Host threads shown by default: the training thread and the busiest other.
_DEFAULT_THREADS = 2
# Share of a marked span's length shown on each side of it, and the least (ps) shown around an instant.
_MARGIN = 0.25
_LEAST_WINDOW_PS = 10_000


@dataclass(frozen=True)
class Window:
    """A stretch of time in ps, and the spans marked in it."""

    start: int
    end: int
    marks: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class DrawnRow:
    """One row to draw: its lane, its depth in it, and its bars."""

    info: LaneInfo
    lane: Lane
    depth: int
    bars: Bars


@dataclass(frozen=True)
class Drawing:
    """All rows of a window. Bars narrower than `pixel` ps were merged."""

    window: Window
    rows: list[DrawnRow]
    pixel: int


def default_lanes(lanes: list[LaneInfo]) -> list[LaneInfo]:
    """The lanes shown by default: the summary, the first device, the training thread and the busiest other."""
    first = next((each.key.split(":")[1] for each in lanes if each.kind == DEVICE), "")
    shown = [each for each in lanes if each.kind in (STEPS, PERIODS, ANNOTATIONS)]
    shown += [each for each in lanes if each.kind == DEVICE and each.key.split(":")[1] == first]
    return shown + [each for each in lanes if each.kind == HOST][:_DEFAULT_THREADS]


def chosen_lanes(lanes: list[LaneInfo], keys: str | None) -> list[LaneInfo]:
    """The lanes named in a URL, separated by commas; the default ones where none is named."""
    wanted = set((keys or "").split(","))
    return [each for each in lanes if each.key in wanted] or default_lanes(lanes)


def clamp(start_ns: int | None, end_ns: int | None, first: int, last: int) -> tuple[int, int]:
    """A window in ps from one in ns, inside the trace; all of it where none is given or it is empty."""
    start = first if start_ns is None else start_ns * PS_PER_NS
    end = last if end_ns is None else end_ns * PS_PER_NS
    start, end = max(start, first - (last - first) // 20), min(end, last + (last - first) // 20)
    return (start, end) if end > start else (first, last)


def around(start_ns: int, duration_ms: float) -> tuple[int, int]:
    """A window in ns that shows a span with some room on both sides."""
    length = max(round(duration_ms * NS_PER_MS), 1)
    room = max(round(length * _MARGIN), _LEAST_WINDOW_PS // PS_PER_NS)
    return start_ns - room, start_ns + length + room


def draw(lanes: list[LaneInfo], window: Window) -> Drawing:
    """The bars of the lanes in a window, `MAX_BARS` at most."""
    rows = [(info, info.lane, depth, row) for info in lanes for depth, row in enumerate(info.lane.rows)]
    bars, pixel = windows([row for *_, row in rows], window.start, window.end, PIXELS, MAX_BARS)
    drawn = [
        DrawnRow(info, lane, depth, each) for (info, lane, depth, _), each in zip(rows, bars, strict=True)
    ]
    return Drawing(window, drawn, pixel)
