"""Walks the bytes of an XSpace into columns, natively and on several cores.

Imports no numpy, so that a large file is walked while that is being imported; `xplane_trace` makes a Trace of what
is found here. Nothing is copied but the columns: texts are looked up in the (mapped) file.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TypeVar

from tpuprof.decode import _xspace
from tpuprof.decode.sums import DENSE, SUMMED_STAT
from tpuprof.parallel import in_threads
from tpuprof.records import record

Data = bytes | memoryview
Span = tuple[int, int]
_T = TypeVar("_T")
_R = TypeVar("_R")
# How many messages surround a space and a plane.
SPACE_DEPTH = 0
_PLANE_DEPTH = 1
# Events decoded as one task: some milliseconds of work, far above what handing out a task costs.
EVENTS_PER_TASK = 65_536
# Sums by metadata id are kept for each task: with more ids than this they would take more room than its events.
SUMMED_IDS = 65_536
# Below this size starting threads takes longer than they save (bytes).
THREADS_FROM = 4_000_000


@record
class Part:
    """What a task found in its events beside their columns.

    How many stats they have by the low bits of their keys; of `SUMMED_STAT`, by metadata id and in one more place
    for all other ids, totals and whether a value was below zero, and how many events have it.
    """

    seen: memoryview
    total: memoryview
    negative: bytearray
    having: int = 0


@record
class WalkedLine:
    """A line: where it is, and its events as columns of 64-bit integers, one row each, in file order."""

    span: Span
    id: int
    name: str
    timestamp_ns: int
    offsets: list[int]
    metadata_id: memoryview
    offset_ps: memoryview
    duration_ps: memoryview
    parts: list[Part] = field(default_factory=list)


@record
class WalkedPlane:
    """A plane: entries of event metadata (of `_xspace.entries`), spans of its own stats, and its lines.

    `places` is the length of sums of `SUMMED_STAT`, whose id is `summed`; 0 where those are not made.
    """

    id: int
    name: str
    entries: memoryview
    stat_names: dict[int, str]
    stat_spans: list[Span]
    summed: int
    places: int
    lines: list[WalkedLine] = field(default_factory=list)


@record
class WalkedSpace:
    """All of a file."""

    planes: list[WalkedPlane]
    hostnames: list[str]
    errors: list[str]
    warnings: list[str]


def walk(data: Data) -> WalkedSpace:
    """Walk an XSpace. Raises `_xspace.DamagedError`."""
    spans, _ = _xspace.fields(data, 0, len(data), SPACE_DEPTH)
    planes: list[WalkedPlane] = []
    places: list[tuple[WalkedPlane, Span]] = []
    for start, end in spans.get(1, []):
        plane, lines = _plane(data, start, end)
        planes.append(plane)
        places += [(plane, each) for each in lines]
    found = _map(data, lambda place: _line(data, *place[1]), places)
    for (plane, _), line in zip(places, found, strict=True):
        plane.lines.append(line)
    _decode_events(data, planes)
    hostnames, errors, warnings = (texts(data, spans.get(number, [])) for number in (4, 2, 3))
    return WalkedSpace(planes, hostnames, errors, warnings)


def _plane(data: Data, start: int, end: int) -> tuple[WalkedPlane, list[Span]]:
    """A plane without its lines, and where those are."""
    spans, numbers = _xspace.fields(data, start, end, _PLANE_DEPTH)
    entries = _xspace.entries(data, spans.get(4, []), True)
    stat_names = _stat_names(data, spans.get(5, []))
    summed = next((key for key, name in stat_names.items() if name == SUMMED_STAT), None)
    plane = WalkedPlane(
        id=numbers.get(1, [0])[-1],
        name=text(data, *spans[2][-1]) if 2 in spans else "",
        entries=entries,
        stat_names=stat_names,
        stat_spans=spans.get(6, []),
        summed=summed or 0,
        places=0 if summed is None else _places(entries),
    )
    return plane, spans.get(3, [])


def _places(entries: memoryview) -> int:
    """Places to add a stat up in, by metadata id and one for all other ids; 0 where that would take too many."""
    count, low, high = _xspace.key_range(entries)
    return high + 2 if count and low >= 0 and high < min(DENSE * count, SUMMED_IDS) else 0


def _line(data: Data, start: int, end: int) -> WalkedLine:
    number, timestamp, name, display, count, offsets = _xspace.line(data, start, end, EVENTS_PER_TASK)
    return WalkedLine(
        span=(start, end),
        id=number,
        name=text(data, *display) or text(data, *name),
        timestamp_ns=timestamp,
        offsets=offsets,
        metadata_id=_xspace.column(count),
        offset_ps=_xspace.column(count),
        duration_ps=_xspace.column(count),
    )


def _decode_events(data: Data, planes: list[WalkedPlane]) -> None:
    tasks = [
        (plane, line, index) for plane in planes for line in plane.lines for index in range(len(line.offsets))
    ]

    def decode(task: tuple[WalkedPlane, WalkedLine, int]) -> Part:
        plane, line, index = task
        rows = slice(index * EVENTS_PER_TASK, (index + 1) * EVENTS_PER_TASK)
        part = Part(_zeros(_xspace.SEEN_KEYS), _zeros(plane.places), bytearray(plane.places))
        columns = line.metadata_id[rows], line.offset_ps[rows], line.duration_ps[rows]
        sums = plane.summed, part.total, part.negative
        part.having = _xspace.events(data, line.offsets[index], line.span[1], *columns, part.seen, *sums)
        return part

    for (_, line, _), part in zip(tasks, _map(data, decode, tasks), strict=True):
        line.parts.append(part)


def _stat_names(data: Data, spans: list[Span]) -> dict[int, str]:
    numbers = iter(_xspace.entries(data, spans, False).tolist())
    rows = zip(*[numbers] * _xspace.ENTRY_NUMBERS, strict=True)
    return {key: text(data, start, end) for key, start, end, _, _, is_known, *_ in rows if is_known}


def _zeros(count: int) -> memoryview:
    return memoryview(array("q", bytes(8 * count)))


def _map(data: Data, work: Callable[[_T], _R], tasks: Sequence[_T]) -> list[_R]:
    return in_threads(work, tasks) if len(data) >= THREADS_FROM else [work(task) for task in tasks]


def texts(data: Data, spans: Sequence[Sequence[int]]) -> list[str]:
    """The texts at those places."""
    return [text(data, start, end) for start, end in spans]


def text(data: Data, start: int, end: int) -> str:
    """The text there."""
    return str(data[start:end], "utf-8", "replace") if end > start else ""
