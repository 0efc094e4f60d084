"""Reads an XSpace by walking its bytes into columns, natively and on several cores.

Nothing is copied but the columns: texts are looked up in the (mapped) file, stats are decoded when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from tpuprof.decode import _xspace
from tpuprof.decode.columns import (
    SUMMED_STAT,
    EventNames,
    Int64,
    Line,
    Plane,
    StatSums,
    StatTable,
    Trace,
    UInt8,
    empty_stats,
)
from tpuprof.errors import Code, TpuprofError
from tpuprof.parallel import in_threads
from tpuprof.records import dataclass

Data = bytes | memoryview
_T = TypeVar("_T")
_R = TypeVar("_R")
# What a task added up by metadata id: totals, where a value was below zero, how many events had the stat.
_Sums = tuple[Int64, UInt8, int]
_BYTES = 2
_VARINT = 0
# Column of `_xspace.entries`.
_IS_KNOWN = 5
# How many messages surround a space and a plane.
_SPACE_DEPTH = 0
_PLANE_DEPTH = 1
# Events decoded as one task: some milliseconds of work, far above what handing out a task costs.
EVENTS_PER_TASK = 65_536
# Sums by metadata id are kept for each task: with more ids than this they would take more room than its events.
SUMMED_IDS = 65_536
# Below this size starting threads takes longer than they save (bytes).
THREADS_FROM = 4_000_000


@dataclass
class _LineSpan:
    """A line before its events are decoded, with the columns they go to."""

    start: int
    end: int
    line: Line
    seen: Int64
    marks: Int64
    plane: Plane
    # Places to add `SUMMED_STAT` up in, by metadata id and one for all other ids; 0 where that is not done.
    places: int


def parse(data: Data, source: str) -> Trace:
    """Decode the bytes of one `.xplane.pb`.

    Raises `TpuprofError`: `input-truncated` where the bytes end early, `input-corrupt` where they are damaged.
    """
    try:
        return _space(data, source)
    except _xspace.DamagedError as damage:
        raise _error(damage, data, source) from None


def _error(damage: _xspace.DamagedError, data: Data, source: str) -> TpuprofError:
    position, ended = damage.args
    # Only the space's own fields can run past the end of the file; within it, damage is what is left.
    if ended and _runs_out(data):
        return TpuprofError(
            Code.TRUNCATED,
            f"{source}: the file ends early ({len(data):,} bytes are there, more were announced).",
            "Copy it again from the training host, or capture again with fewer steps.",
        )
    return TpuprofError(
        Code.CORRUPT,
        f"{source}: the file is damaged near byte {position:,} of {len(data):,}.",
        "Copy it again from the training host, or capture again.",
    )


def _runs_out(data: Data) -> bool:
    try:
        _xspace.fields(data, 0, len(data), _SPACE_DEPTH)
    except _xspace.DamagedError as damage:
        return bool(damage.args[1])
    return False


def _space(data: Data, source: str) -> Trace:
    rows = _xspace.fields(data, 0, len(data), _SPACE_DEPTH)
    planes: list[Plane] = []
    lines: list[tuple[Plane, int, int]] = []
    for start, end in _ranges(rows, 1).tolist():
        plane, places = _plane(data, start, end)
        planes.append(plane)
        lines += [(plane, begin, until) for begin, until in places]
    spans = _map(data, lambda line: _line(data, *line), lines)
    for span in spans:
        span.plane.lines.append(span.line)
    _decode_events(data, spans)
    return Trace(
        source=source,
        format="xplane",
        size=len(data),
        planes=planes,
        hostnames=_texts(data, _ranges(rows, 4)),
        errors=_texts(data, _ranges(rows, 2)),
        warnings=_texts(data, _ranges(rows, 3)),
    )


def _plane(data: Data, start: int, end: int) -> tuple[Plane, list[list[int]]]:
    """A plane without its lines, and where those start and end."""
    rows = _xspace.fields(data, start, end, _PLANE_DEPTH)
    ids = rows[(rows[:, 0] == 1) & (rows[:, 1] == _VARINT), 2]
    own = _ranges(rows, 6)
    plane = Plane(
        id=int(ids[-1]) if len(ids) else 0,
        name=_last_text(data, _ranges(rows, 2)),
        lines=[],
        events=_event_names(data, _ranges(rows, 4)),
        stat_names=_stat_names(data, _ranges(rows, 5)),
        stats=_table(_xspace.own_stats(data, *_columns(own)), data),
    )
    return plane, _ranges(rows, 3).tolist()


def _line(data: Data, plane: Plane, start: int, end: int) -> _LineSpan:
    number, timestamp, name, display, count, marks = _xspace.line(data, start, end, EVENTS_PER_TASK)
    seen = np.zeros(_xspace.SEEN_KEYS, np.int64)

    def read_stats(keys: Sequence[int]) -> StatTable:
        wanted = np.array(sorted(set(keys)), np.int64)
        most = int(seen[sorted({key % _xspace.SEEN_KEYS for key in wanted.tolist()})].sum())
        return _table(_xspace.line_stats(data, start, end, wanted, most), data) if most else empty_stats()

    line = Line(
        id=number,
        name=_text(data, *display) or _text(data, *name),
        timestamp_ns=timestamp,
        metadata_id=np.empty(count, np.int64),
        offset_ps=np.empty(count, np.int64),
        duration_ps=np.empty(count, np.int64),
        read_stats=read_stats,
    )
    names = plane.events
    summed = SUMMED_STAT in plane.stat_ids and names.is_dense and names.ids[-1] < SUMMED_IDS
    return _LineSpan(start, end, line, seen, marks, plane, int(names.ids[-1]) + 2 if summed else 0)


def _decode_events(data: Data, spans: list[_LineSpan]) -> None:
    tasks = [(span, index, position) for span in spans for index, position in enumerate(span.marks.tolist())]

    def decode(task: tuple[_LineSpan, int, int]) -> tuple[Int64, _Sums]:
        span, index, position = task
        part = slice(index * EVENTS_PER_TASK, (index + 1) * EVENTS_PER_TASK)
        line, seen = span.line, np.zeros(_xspace.SEEN_KEYS, np.int64)
        total, negative = np.zeros(span.places, np.int64), np.zeros(span.places, np.uint8)
        key = span.plane.stat_ids.get(SUMMED_STAT, 0)
        columns = line.metadata_id[part], line.offset_ps[part], line.duration_ps[part]
        having = _xspace.events(data, position, span.end, *columns, seen, key, total, negative)
        return seen, (total, negative, having)

    parts: dict[int, list[_Sums]] = {}
    for (span, _, _), (seen, sums) in zip(tasks, _map(data, decode, tasks), strict=True):
        span.seen[:] += seen
        parts.setdefault(id(span), []).append(sums)
    for span in spans:
        if span.places and id(span) in parts:
            span.line.sums[span.plane.stat_ids[SUMMED_STAT]] = _put_together(
                parts[id(span)], span.plane.events
            )


def _put_together(parts: list[_Sums], names: EventNames) -> StatSums:
    row = np.append(names.rows(np.arange(len(parts[0][0]) - 1)), -1)
    total, negative = np.zeros(len(names.ids) + 1, np.int64), np.zeros(len(names.ids) + 1, np.bool_)
    for part, below_zero, _ in parts:
        np.add.at(total, row, part)
        negative[row[below_zero != 0]] = True
    return StatSums(total, negative, sum(having for _, _, having in parts))


def _map(data: Data, work: Callable[[_T], _R], tasks: Sequence[_T]) -> list[_R]:
    return in_threads(work, tasks) if len(data) >= THREADS_FROM else [work(task) for task in tasks]


def _event_names(data: Data, ranges: Int64) -> EventNames:
    table = _xspace.entries(data, *_columns(ranges), True)
    # Of several entries under one key the last stays, as in a protobuf map.
    order = np.argsort(table[:, 0], kind="stable")
    order = order[table[order, _IS_KNOWN] != 0]
    keys = table[order, 0]
    order = order[np.append(keys[1:] != keys[:-1], True)] if len(keys) else order
    kept = table[order]
    return EventNames(
        ids=np.ascontiguousarray(kept[:, 0]),
        names=_texts(data, kept[:, 1:3]),
        display_names=_texts(data, kept[:, 3:5]),
        stats=_table(_xspace.entry_stats(data, *_columns(ranges[order])), data),
    )


def _stat_names(data: Data, ranges: Int64) -> dict[int, str]:
    table = _xspace.entries(data, *_columns(ranges), False)
    table = table[table[:, _IS_KNOWN] != 0]
    return dict(zip(table[:, 0].tolist(), _texts(data, table[:, 1:3]), strict=True))


def _table(columns: tuple[Int64, Int64, UInt8, np.ndarray, Int64], data: Data) -> StatTable:
    return StatTable(*columns, heap=data)


def _ranges(rows: Int64, number: int) -> Int64:
    """Start and end of each field of that number that holds bytes or a message."""
    return rows[(rows[:, 0] == number) & (rows[:, 1] == _BYTES), 2:4]


def _columns(ranges: Int64) -> tuple[Int64, Int64]:
    return np.ascontiguousarray(ranges[:, 0]), np.ascontiguousarray(ranges[:, 1])


def _last_text(data: Data, ranges: Int64) -> str:
    return _text(data, *ranges[-1].tolist()) if len(ranges) else ""


def _texts(data: Data, ranges: Int64) -> list[str]:
    return [_text(data, start, end) for start, end in ranges.tolist()]


def _text(data: Data, start: int, end: int) -> str:
    return str(data[start:end], "utf-8", "replace") if end > start else ""
