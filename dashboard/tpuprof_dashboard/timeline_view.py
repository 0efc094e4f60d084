"""What a timeline shows: which lanes, which window, and the bars of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tpuprof.timeline.lanes import ANNOTATIONS, DEVICE, HOST, PERIODS, STEPS, Lane, LaneInfo
from tpuprof.timeline.level_of_detail import Bars, windows
from tpuprof.units import NS_PER_MS, PS_PER_NS

# The lane of people's notes, which is drawn where there are any.
NOTES_LANE = "notes"
# Between the number of a host and the key of a lane of its own, where lanes of all hosts are drawn.
BETWEEN_HOSTS = "/"
# Bars drawn at most: a browser draws and zooms some thousand rectangles smoothly.
MAX_BARS = 4_000
# Columns of pixels that bars are merged to: what a chart on a wide screen has.
PIXELS = 1_200
# Host threads shown by default: the training thread and the busiest other.
_DEFAULT_THREADS = 2
# Share of a marked span's length shown on each side of it, and the least (ps) shown around an instant.
_MARGIN = 0.25
_LEAST_WINDOW_PS = 10_000
# Between the parts of an event in the URL, and digits of a number there: more are no time of a capture.
_BETWEEN, _DIGITS = "@", 19


class HasLanes(Protocol):
    """A host, or all hosts together."""

    lanes: list[LaneInfo]

    def usual_lanes(self) -> list[LaneInfo]:
        """The lanes drawn where none are chosen."""
        ...


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
    pinned: bool = False


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


def chosen_lanes(host: HasLanes, keys: str | None) -> list[LaneInfo]:
    """The lanes named in a URL, separated by commas; the usual ones where none is named."""
    wanted = set((keys or "").split(","))
    return [each for each in host.lanes if each.key in wanted] or host.usual_lanes()


def lanes_shown(host: HasLanes, state: Mapping[str, str]) -> list[LaneInfo]:
    """The lanes that a URL asks for: the pinned ones first, in the order in which they were pinned, then notes."""
    by_key = {each.key: each for each in host.lanes}
    notes = [key for key in by_key if is_notes(key)]
    first = [by_key[key] for key in [*pinned_in(state), *notes] if key in by_key]
    first = list({each.key: each for each in first}.values())
    chosen = chosen_lanes(host, state.get("lanes"))
    return [*first, *(each for each in chosen if each not in first)]


def is_notes(key: str) -> bool:
    """Whether a lane is that of people's notes, on one host or among those of all hosts."""
    return key.rpartition(BETWEEN_HOSTS)[2] == NOTES_LANE


def pinned_in(state: Mapping[str, str]) -> list[str]:
    """Keys of the pinned lanes, without repeats."""
    return list(dict.fromkeys(each for each in state.get("pin", "").split(",") if each))


def event_key(lane: str, depth: int, start: int) -> str:
    """An event in the URL: its lane's key, its row in that, and its start (ps)."""
    return f"{lane}{_BETWEEN}{depth}{_BETWEEN}{start}"


def read_event_key(text: str) -> tuple[str, int, int] | None:
    """The lane's key, the row and the start (ps) of an event in the URL; None of anything else."""
    lane, *numbers = text.rsplit(_BETWEEN, 2)
    if len(numbers) != 2 or not all(each.isdecimal() and len(each) < _DIGITS for each in numbers):
        return None
    return lane, int(numbers[0]), int(numbers[1])


def merged_key(start: int, end: int) -> str:
    """What stands for merged events where an event would stand: from when to when they go (ps)."""
    return f"{start}-{end}"


def read_merged_key(text: str) -> tuple[int, int] | None:
    """From when to when merged events go (ps); None of anything else."""
    numbers = text.split("-")
    if len(numbers) != 2 or not all(each.isdecimal() and len(each) < _DIGITS for each in numbers):
        return None
    return int(numbers[0]), int(numbers[1])


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


def draw(lanes: list[LaneInfo], window: Window, pinned: Sequence[str] = ()) -> Drawing:
    """The bars of the lanes in a window, `MAX_BARS` at most; `pinned` are keys of lanes."""
    rows = [(info, info.lane, depth, row) for info in lanes for depth, row in enumerate(info.lane.rows)]
    bars, pixel = windows([row for *_, row in rows], window.start, window.end, PIXELS, MAX_BARS)
    drawn = [
        DrawnRow(info, lane, depth, each, info.key in pinned)
        for (info, lane, depth, _), each in zip(rows, bars, strict=True)
    ]
    return Drawing(window, drawn, pixel)
