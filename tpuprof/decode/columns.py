"""What every reader hands over: a trace as columns, never a Python object per event.

All arrays of one line have one row per event, in file order. Times are integers: `timestamp_ns` in
nanoseconds since the epoch, `offset_ps` and `duration_ps` in picoseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tpuprof.decode.sums import DENSE
from tpuprof.records import record

Int64 = npt.NDArray[np.int64]
UInt64 = npt.NDArray[np.uint64]
UInt8 = npt.NDArray[np.uint8]

NO_TEXT = -1


class StatKind(IntEnum):
    """Which field of the stat's oneof holds its value; the numbers are the format's field numbers."""

    NONE = 0
    DOUBLE = 2
    UINT64 = 3
    INT64 = 4
    STR = 5
    BYTES = 6
    REF = 7


@record(frozen=True)
class StatTable:
    """Stats of many events (or of many event metadata) as columns, one row per stat.

    `row` says which event a stat belongs to, `key` its stat-metadata id, `kind` a `StatKind`.
    `bits` holds the 64-bit value (doubles by their bit pattern); for STR and BYTES it is the position in
    `heap` and `length` the number of bytes there.
    """

    row: Int64
    key: Int64
    kind: UInt8
    bits: UInt64
    length: Int64
    heap: bytes | memoryview

    def __len__(self) -> int:
        return len(self.row)

    def select(self, key: int) -> StatTable:
        """The rows of one stat-metadata id."""
        keep = self.key == key
        if keep.all():
            return self
        return StatTable(
            self.row[keep], self.key[keep], self.kind[keep], self.bits[keep], self.length[keep], self.heap
        )

    def raw(self, index: int) -> bytes:
        """The bytes of a STR or BYTES stat."""
        start = int(self.bits[index])
        return bytes(self.heap[start : start + int(self.length[index])])

    def integers(self) -> Int64:
        """Values of INT64, UINT64 and REF rows as int64, not to be written to; doubles are truncated toward zero."""
        values = self.bits.view(np.int64)
        doubles = self.kind == StatKind.DOUBLE
        if doubles.any():
            values = values.copy()
            numbers = self.bits[doubles].view(np.float64)
            usable = np.isfinite(numbers) & (np.abs(numbers) < float(2**63))
            values[doubles] = np.where(usable, numbers, 0.0).astype(np.int64)
        return values

    def floats(self) -> npt.NDArray[np.float64]:
        """Values of numeric rows as float64."""
        values = self.bits.view(np.int64).astype(np.float64)
        unsigned = self.kind == StatKind.UINT64
        values[unsigned] = self.bits[unsigned].astype(np.float64)
        doubles = self.kind == StatKind.DOUBLE
        values[doubles] = self.bits[doubles].view(np.float64)
        return values


def empty_stats() -> StatTable:
    """A stat table without rows."""
    none = np.empty(0, np.int64)
    return StatTable(none, none, np.empty(0, np.uint8), np.empty(0, np.uint64), none, b"")


@record(frozen=True)
class StatSums:
    """An integer stat added up over a line's events, by their row in the plane's `EventNames`; sums wrap.

    The last place is that of events without metadata. `negative` says where any value was below zero, `having` how
    many events have the stat; of several in one event the last counts.
    """

    total: Int64
    negative: npt.NDArray[np.bool_]
    having: int


def sum_stats(stats: StatTable, name: Int64, names: int) -> StatSums:
    """Add up stats of one key; `name` is each event's row among `names` entries of metadata, -1 for none."""
    values, has = np.zeros(len(name), np.int64), np.zeros(len(name), np.bool_)
    is_number = (stats.kind != StatKind.STR) & (stats.kind != StatKind.BYTES)
    values[stats.row] = np.where(is_number, stats.integers(), 0)
    has[stats.row] = True
    total, negative = np.zeros(names + 1, np.int64), np.zeros(names + 1, np.bool_)
    np.add.at(total, name, values)  # -1 counts from the end
    negative[name[values < 0]] = True
    return StatSums(total, negative, int(has.sum()))


StatReader = Callable[[Sequence[int]], StatTable]
RowReader = Callable[[int, Sequence[int]], StatTable]


@record
class Line:
    """One line (thread or device queue) of a plane.

    `read_stats(keys)` decodes the stats with those stat-metadata ids, and only those, when asked. `sums` holds, by
    stat-metadata id, what the reader has added up already. `read_row(row, keys)` decodes the stats of few events, of
    that one among them, where the reader need not go through them all.
    """

    id: int
    name: str
    timestamp_ns: int
    metadata_id: Int64
    offset_ps: Int64
    duration_ps: Int64
    read_stats: StatReader = field(repr=False)
    sums: dict[int, StatSums] = field(default_factory=dict, repr=False)
    read_row: RowReader | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.metadata_id)

    def row_stats(self, row: int, keys: Sequence[int]) -> StatTable:
        """The stats of one event that have one of the keys."""
        found = self.read_row(row, keys) if self.read_row is not None else self.read_stats(keys)
        keep = found.row == row
        columns = found.row[keep], found.key[keep], found.kind[keep], found.bits[keep], found.length[keep]
        return StatTable(*columns, found.heap)


@record(frozen=True)
class EventNames:
    """Event metadata of a plane: ids ascending, names and display names beside them.

    `stats` holds the metadata's own stats; its `row` counts into `ids`.
    """

    ids: Int64
    names: list[str]
    display_names: list[str]
    stats: StatTable

    @property
    def is_dense(self) -> bool:
        """Whether a table with a place for each id, from 0 on, is of reasonable size."""
        return len(self.ids) > 0 and self.ids[0] >= 0 and self.ids[-1] < DENSE * len(self.ids)

    def rows(self, metadata_id: Int64) -> Int64:
        """Row of each metadata id in this table, -1 where an event names metadata that is not there."""
        if not len(self.ids):
            return np.full(len(metadata_id), -1, np.int64)
        if self.is_dense:
            return self._rows_of_dense_ids(metadata_id)
        found = np.searchsorted(self.ids, metadata_id)
        found[found == len(self.ids)] = 0
        return np.where(self.ids[found] == metadata_id, found, -1).astype(np.int64)

    def named(self, name: str) -> Int64:
        """Rows of the entries of that name."""
        return np.array([row for row, each in enumerate(self.names) if each == name], np.int64)

    def _rows_of_dense_ids(self, metadata_id: Int64) -> Int64:
        # The last place takes all ids that are not in the table, negative ones too: those count from the end.
        row = np.full(int(self.ids[-1]) + 2, -1, np.int64)
        row[self.ids] = np.arange(len(self.ids))
        found: Int64 = row[np.clip(metadata_id, -1, len(row) - 1)]
        return found


@record
class Plane:
    """One plane: a host, a device, or a bag of metadata."""

    id: int
    name: str
    lines: list[Line]
    events: EventNames
    stat_names: dict[int, str]
    stats: StatTable

    @cached_property
    def stat_ids(self) -> dict[str, int]:
        """Stat-metadata id by stat name; of two ids under one name the first stays."""
        ids: dict[str, int] = {}
        for key, name in self.stat_names.items():
            ids.setdefault(name, key)
        return ids

    def stat_keys(self, names: Iterable[str]) -> list[int]:
        """Ids of those of the given stat names that this plane defines."""
        return [self.stat_ids[name] for name in names if name in self.stat_ids]

    def text(self, stats: StatTable, index: int) -> str:
        """A stat's value as text, whatever its kind."""
        kind = StatKind(int(stats.kind[index])) if stats.kind[index] in _KINDS else StatKind.NONE
        if kind == StatKind.REF:
            return self.stat_names.get(int(stats.bits[index]), "")
        if kind in (StatKind.STR, StatKind.BYTES):
            return stats.raw(index).decode("utf-8", "replace")
        if kind == StatKind.DOUBLE:
            return repr(float(stats.floats()[index]))
        return "" if kind == StatKind.NONE else str(int(stats.integers()[index]))

    def _texts(self, stats: StatTable, rows: Int64) -> list[str]:
        if not (stats.kind[rows] == StatKind.STR).all():
            return [self.text(stats, row) for row in rows.tolist()]
        start = stats.bits[rows].astype(np.int64)
        places = zip(start.tolist(), (start + stats.length[rows]).tolist(), strict=True)
        return [str(stats.heap[begin:end], "utf-8", "replace") for begin, end in places]

    def stat_text(self, stats: StatTable, name: str, rows: int) -> TextColumn:
        """The text of stat `name` for each of `rows` owners, as codes into a list of distinct strings."""
        codes = np.full(rows, NO_TEXT, np.int32)
        key = self.stat_ids.get(name)
        if key is None or not len(stats):
            return TextColumn(codes, [])
        chosen = stats.select(key)
        first, value = _distinct_values(chosen)
        strings: dict[str, int] = {}
        code = [strings.setdefault(text, len(strings)) for text in self._texts(chosen, first)]
        codes[chosen.row] = np.array(code, np.int32)[value]
        return TextColumn(codes, list(strings))

    def stat_bytes(self, stats: StatTable, name: str, rows: int) -> list[bytes | None]:
        """The bytes of stat `name` for each of `rows` owners, None where it has none."""
        values: list[bytes | None] = [None] * rows
        key = self.stat_ids.get(name)
        if key is not None and len(stats):
            chosen = stats.select(key)
            held = (chosen.kind == _STR) | (chosen.kind == _BYTES)
            start = chosen.bits[held].astype(np.int64)
            columns = chosen.row[held], start, start + chosen.length[held]
            for row, begin, end in zip(*(column.tolist() for column in columns), strict=True):
                values[row] = bytes(chosen.heap[begin:end])
        return values

    def stat_integers(self, stats: StatTable, name: str, rows: int, missing: int = 0) -> Int64:
        """The integer value of stat `name` for each of `rows` owners, `missing` where it has none."""
        values = np.full(rows, missing, np.int64)
        key = self.stat_ids.get(name)
        if key is not None and len(stats):
            chosen = stats.select(key)
            values[chosen.row] = chosen.integers()
        return values

    def own_stat(self, name: str) -> str | None:
        """The text of one of the plane's own stats, None where the plane does not state it."""
        key = self.stat_ids.get(name)
        found = np.flatnonzero(self.stats.key == key) if key is not None else np.empty(0, np.int64)
        return self.text(self.stats, int(found[0])) if len(found) else None


@record(frozen=True)
class TextColumn:
    """Text by row: `codes` index `strings`, `NO_TEXT` where a row has none."""

    codes: npt.NDArray[np.int32]
    strings: list[str]

    def __getitem__(self, row: int) -> str:
        code = int(self.codes[row])
        return self.strings[code] if code != NO_TEXT else ""


@record
class Trace:
    """One decoded file: the planes of one host, with what the profiler said about the capture.

    `source` is the file it came from, `format` the reader's name, `size` the file's size in bytes. `check` raises
    `TpuprofError` (`input-changed`) where the file has changed since it was opened.
    """

    source: str
    format: str
    size: int
    planes: list[Plane]
    hostnames: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    check: Callable[[], None] = field(default=lambda: None, compare=False, repr=False)

    def plane(self, name: str) -> Plane | None:
        """The first plane of that name."""
        return next((plane for plane in self.planes if plane.name == name), None)


_KINDS = frozenset(int(kind) for kind in StatKind)
# Looked up once: Python 3.11 looks for members of an enumeration in a slow way.
_STR, _BYTES = int(StatKind.STR), int(StatKind.BYTES)


def _distinct_values(stats: StatTable) -> tuple[Int64, Int64]:
    """The first row of each distinct value and, by row, which of them it has.

    Values are the same where kind, 64-bit value (of texts: the place) and length are.
    """
    if not len(stats):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.lexsort((stats.length, stats.bits, stats.kind))
    kind, bits, length = stats.kind[order], stats.bits[order], stats.length[order]
    change = np.ones(len(order), np.bool_)
    change[1:] = (kind[1:] != kind[:-1]) | (bits[1:] != bits[:-1]) | (length[1:] != length[:-1])
    value = np.empty(len(order), np.int64)
    value[order] = np.cumsum(change) - 1
    return order[change], value
