"""One event of a timeline: what the trace says of it, what it lies in, and which work it hands over or stems from."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tpuprof.decode.columns import Plane, StatKind, StatTable
from tpuprof.model.timeline import Track
from tpuprof.timeline.lanes import DEVICE, HOST, LaneInfo
from tpuprof.timeline.links import Link, Links

# A longer value is cut (characters), and more values than these are left out: a program in a stat is no argument.
_LONGEST_VALUE = 2_000
MOST_VALUES = 60
# Events around it that are named (events).
MOST_AROUND = 12
# The two ends of a hand-over, which are shown as such, and what the details name in words.
_HIDDEN = frozenset({"_p", "_pt", "_c", "_ct", "hlo_proto"})
_SOURCE, _SCOPE, _HLO = "source", "tf_op", " = "


@dataclass(frozen=True)
class Chosen:
    """An event by where it is drawn: its lane, its row in that, and what is drawn. Times in ps from the origin."""

    lane: LaneInfo
    depth: int
    name: str
    detail: str
    start: int
    duration: int


@dataclass(frozen=True)
class End:
    """One end of a hand-over: its lane (None where no lane has it), its row in that, its name, and when (ps).

    `at` is the moment of the hand-over, `start` and `duration` are those of the event around it.
    """

    lane: LaneInfo | None
    thread: str
    depth: int
    name: str
    at: int
    start: int
    duration: int
    on_device: bool


@dataclass(frozen=True)
class HandOver:
    """Work that goes from one event to another."""

    source: End
    target: End


@dataclass(frozen=True)
class EventDetails:
    """What the trace says of an event. `values` are its own, `facts` those of every event of its name.

    `hlo` is its line of HLO, `around` the events that it lies in, the innermost first; all empty where the trace does
    not say. `launched_by` leads from it back to where its work began, `launches` to what it handed over, the nearest
    first. `recorded` is whether it is an event of the trace: steps and parts of the breakdown are computed.
    """

    chosen: Chosen
    recorded: bool = False
    values: list[tuple[str, str]] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    hlo: str = ""
    source: str = ""
    scope: str = ""
    around: list[str] = field(default_factory=list)
    launched_by: list[HandOver] = field(default_factory=list)
    launches: list[HandOver] = field(default_factory=list)


def event_at(lanes: list[LaneInfo], key: str, depth: int, start: int) -> Chosen | None:
    """The event of a lane's row that begins at a moment (ps); None where there is none."""
    info = next((each for each in lanes if each.key == key), None)
    if info is None or not 0 <= depth < len(info.lane.rows):
        return None
    lane, events = info.lane, info.lane.rows[depth].levels[0]
    at = int(np.searchsorted(events.start, start))
    if at >= len(events) or int(events.start[at]) != start:
        return None
    label = int(events.label[at])
    return Chosen(info, depth, lane.names[label], lane.details[label], start, int(events.busy[at]))


def details_of_event(chosen: Chosen, lanes: list[LaneInfo], links: Links) -> EventDetails:
    """What the trace says of an event."""
    place = _place(chosen)
    if place is None:
        return EventDetails(chosen)
    track, row = place
    plane, name = track.plane, int(track.name_row[row])
    stats = plane.events.stats
    known = stats.row == name
    own = StatTable(
        stats.row[known],
        stats.key[known],
        stats.kind[known],
        stats.bits[known],
        stats.length[known],
        stats.heap,
    )
    facts = dict(_values(plane, own))
    long_name = plane.events.names[name] if name >= 0 else ""
    shown = _Shown(lanes)
    return EventDetails(
        chosen,
        recorded=True,
        values=_values(plane, track.line.row_stats(row, list(plane.stat_names))),
        facts=[each for each in facts.items() if each[0] not in (_SOURCE, _SCOPE)],
        hlo=long_name if _HLO in long_name else "",
        source=facts.get(_SOURCE, ""),
        scope=facts.get(_SCOPE, ""),
        around=_around(track, row),
        launched_by=[shown.hand_over(each, links) for each in links.to_event(track, row)],
        launches=[shown.hand_over(each, links) for each in links.from_event(track, row)],
    )


def _place(chosen: Chosen) -> tuple[Track, int] | None:
    """The event itself, among those that its lane is made of.

    What is drawn may last longer than the event: on a CPU an op's work goes on after its launch.
    """
    found: list[tuple[tuple[bool, bool], Track, int]] = []
    for track in chosen.lane.tracks:
        names, displayed = track.plane.events.names, track.plane.events.display_names
        for row in np.flatnonzero(track.start == chosen.start).tolist():
            name = int(track.name_row[row])
            is_named = name >= 0 and chosen.name in (names[name], displayed[name])
            lasts = int(track.end[row]) - chosen.start == chosen.duration
            if is_named or lasts:
                found.append(((is_named, lasts), track, row))
    best = max(found, key=lambda each: each[0], default=None)
    return best[1:] if best else None


def _values(plane: Plane, stats: StatTable) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for index in range(len(stats)):
        name = plane.stat_names.get(int(stats.key[index]), "")
        if name in _HIDDEN or not name:
            continue
        if stats.kind[index] == StatKind.BYTES:
            found[name] = f"{int(stats.length[index]):,} bytes"
            continue
        text = plane.text(stats, index)
        found[name] = text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
    return list(found.items())[:MOST_VALUES]


def _name(track: Track, row: int) -> str:
    name = int(track.name_row[row])
    events = track.plane.events
    return (events.display_names[name] or events.names[name]) if name >= 0 else "(unnamed)"


def _around(track: Track, row: int) -> list[str]:
    found: list[str] = []
    parent = int(track.parent[row])
    while parent >= 0 and len(found) < MOST_AROUND:
        found.append(_name(track, parent))
        parent = int(track.parent[parent])
    return found


class _Shown:
    """Finds the lanes in which events are drawn."""

    def __init__(self, lanes: list[LaneInfo]) -> None:
        self._of: dict[int, LaneInfo] = {}
        for info in lanes:
            if info.kind in (HOST, DEVICE) and len(info.tracks) == 1:
                self._of[id(info.tracks[0])] = info
        self._devices = [info for info in lanes if info.kind == DEVICE and len(info.tracks) > 1]

    def hand_over(self, link: Link, links: Links) -> HandOver:
        """A link with the lanes of its ends."""
        (track, row), (target, at) = link.source, link.target
        source = self._end(track, row, links.around_mark(track, row) if _is_instant(track, row) else row)
        inside = links.first_inside(target, at) if _is_instant(target, at) else at
        return HandOver(source, self._end(target, at, inside))

    def _end(self, track: Track, row: int, around: int) -> End:
        """The end of a hand-over; events without length are known by the event around them."""
        event = int(around) if around >= 0 else row
        lane, depth = self._lane(track, event)
        on_device = "device" in track.plane.name
        start, end = int(track.start[event]), int(track.end[event])
        at = int(track.start[row])
        return End(lane, track.label, depth, _name(track, event), at, start, end - start, on_device)

    def _lane(self, track: Track, row: int) -> tuple[LaneInfo | None, int]:
        candidates = [self._of[id(track)]] if id(track) in self._of else []
        candidates += [
            info for info in self._devices if not candidates and any(each is track for each in info.tracks)
        ]
        for info in candidates:
            for depth, bars in enumerate(each.levels[0] for each in info.lane.rows):
                at = int(np.searchsorted(bars.start, int(track.start[row])))
                if at < len(bars) and bars.start[at] == track.start[row] and bars.end[at] == track.end[row]:
                    return info, depth
        return (candidates[0] if len(candidates) == 1 else None), 0


def _is_instant(track: Track, row: int) -> bool:
    return int(track.start[row]) == int(track.end[row])
