"""Makes a Trace of what a walk over the bytes of an XSpace finds; columns are used in place."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tpuprof.decode import _xspace
from tpuprof.decode.columns import EventNames, Int64, Line, Plane, StatSums, StatTable, Trace, empty_stats
from tpuprof.decode.xplane_walk import (
    EVENTS_PER_TASK,
    Data,
    Part,
    Span,
    WalkedLine,
    WalkedPlane,
    WalkedSpace,
)

# Column of an entry that says whether it counts.
_IS_KNOWN = 5


class _Known(NamedTuple):
    """A table of event metadata, and what it is made of: what keys of stats mean, and where its entries are."""

    meanings: list[tuple[int, str]]
    span: list[Int64]
    names: EventNames


def trace_of(data: Data, space: WalkedSpace, source: str) -> Trace:
    """The Trace of a file. Raises `_xspace.DamagedError`."""
    known: list[_Known] = []
    return Trace(
        source=source,
        format="xplane",
        size=len(data),
        planes=[_plane(data, plane, known) for plane in space.planes],
        hostnames=space.hostnames,
        errors=space.errors,
        warnings=space.warnings,
    )


def _plane(data: Data, plane: WalkedPlane, known: list[_Known]) -> Plane:
    events = _event_names(data, plane, known)
    return Plane(
        id=plane.id,
        name=plane.name,
        lines=[_line(data, plane, line, events) for line in plane.lines],
        events=events,
        stat_names=plane.stat_names,
        stats=_table(_xspace.own_stats(data, *_places(plane.stat_spans)), data),
    )


def _places(spans: list[Span]) -> list[Int64]:
    return list(np.ascontiguousarray(np.array(spans, np.int64).reshape(-1, 2).T))


def _line(data: Data, plane: WalkedPlane, walked: WalkedLine, names: EventNames) -> Line:
    seen = np.zeros(_xspace.SEEN_KEYS, np.int64)
    for part in walked.parts:
        seen += _column(part.seen)
    span = walked.span

    def read_stats(keys: Sequence[int]) -> StatTable:
        wanted = array("q", sorted(set(keys)))
        most = int(seen[sorted({key % _xspace.SEEN_KEYS for key in wanted})].sum())
        return _table(_xspace.line_stats(data, *span, wanted, most), data) if most else empty_stats()

    def read_row(row: int, keys: Sequence[int]) -> StatTable:
        """As `read_stats`, of the task's events around one of them: a line may have millions."""
        task = row // EVENTS_PER_TASK
        ends = [*walked.offsets[1:], span[1]]
        wanted = array("q", sorted(set(keys)))
        most = int(_column(walked.parts[task].seen).sum())
        found = _table(_xspace.line_stats(data, walked.offsets[task], ends[task], wanted, most), data)
        return replace(found, row=found.row + task * EVENTS_PER_TASK)

    line = Line(
        id=walked.id,
        name=walked.name,
        timestamp_ns=walked.timestamp_ns,
        metadata_id=_column(walked.metadata_id),
        offset_ps=_column(walked.offset_ps),
        duration_ps=_column(walked.duration_ps),
        read_stats=read_stats,
        read_row=read_row,
    )
    if plane.places and walked.parts:
        line.sums[plane.summed] = _put_together(walked.parts, names)
    return line


def _put_together(parts: list[Part], names: EventNames) -> StatSums:
    row = np.append(names.rows(np.arange(len(parts[0].total) - 1)), -1)
    total, negative = np.zeros(len(names.ids) + 1, np.int64), np.zeros(len(names.ids) + 1, np.bool_)
    for part in parts:
        np.add.at(total, row, _column(part.total))
        negative[row[np.frombuffer(part.negative, np.bool_)]] = True
    return StatSums(total, negative, sum(part.having for part in parts))


def _event_names(data: Data, plane: WalkedPlane, known: list[_Known]) -> EventNames:
    """The plane's table; planes that state the same, as the devices of one program do, share one."""
    table = _column(plane.entries).reshape(-1, _xspace.ENTRY_NUMBERS)
    # Of several entries under one key the last stays, as in a protobuf map.
    order = np.argsort(table[:, 0], kind="stable")
    order = order[table[order, _IS_KNOWN] != 0]
    keys = table[order, 0]
    order = order[np.append(keys[1:] != keys[:-1], True)] if len(keys) else order
    # By column, so that each of them is one piece.
    key, start, end, display_start, display_end, _, *span = np.ascontiguousarray(table[order].T)
    meanings = _meanings(plane.stat_names)
    for each in known:
        # Equal where all entries are, and what the keys of their stats mean; maps are written in any order.
        if each.meanings == meanings and _xspace.same(data, *span, *each.span):
            return each.names
    names = EventNames(
        ids=key,
        names=_xspace.texts(data, start, end),
        display_names=_xspace.texts(data, display_start, display_end),
        stats=_table(_xspace.entry_stats(data, *span), data),
    )
    known.append(_Known(meanings, span, names))
    return names


def _meanings(stat_names: dict[int, str]) -> list[tuple[int, str]]:
    return list(stat_names.items()) if _repeats(stat_names) else sorted(stat_names.items())


def _repeats(stat_names: dict[int, str]) -> bool:
    """Whether two keys have one name: the first of them counts, so that their order does."""
    return len(set(stat_names.values())) < len(stat_names)


def _table(
    columns: tuple[memoryview, memoryview, memoryview, memoryview, memoryview], data: Data
) -> StatTable:
    row, key, kind, bits, length = columns
    kinds, values = _column(kind, np.uint8), _column(bits, np.uint64)
    return StatTable(_column(row), _column(key), kinds, values, _column(length), heap=data)


def _column(numbers: memoryview, kind: type[np.generic] = np.int64) -> npt.NDArray[Any]:
    return np.frombuffer(numbers, kind)
