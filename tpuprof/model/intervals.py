"""Arithmetic on time intervals, vectorised: unions, differences, coverage, nesting.

All times are int64 picoseconds from the run's origin. A `Spans` is a set of half-open intervals
[start, end), ascending and disjoint; every function returns exact integers, never rounded ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_nesting: Any
_sweeps: Any
try:
    from tpuprof.model import _nesting, _sweeps
except ImportError:  # not built, or for another Python or machine
    _nesting = _sweeps = None

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


class Spans(NamedTuple):
    """Disjoint ascending half-open intervals; `start` and `end` have one row an interval (ps)."""

    start: Int64
    end: Int64

    @property
    def total(self) -> int:
        """Sum of the lengths in ps."""
        return int((self.end - self.start).sum())


class Segments(NamedTuple):
    """A line cut into stretches that each belong to the innermost event covering them.

    `event` is the row of that event in the arrays given to `flatten`.
    """

    start: Int64
    end: Int64
    event: Int64


EMPTY = Spans(np.empty(0, np.int64), np.empty(0, np.int64))


def union(start: Int64, end: Int64) -> Spans:
    """Merge intervals that overlap or touch; empty and negative ones are dropped."""
    found = _sweeps.union(start, end) if _sweeps else None
    if found is not None:
        return Spans(*found)
    keep = end > start
    if not keep.all():
        start, end = start[keep], end[keep]
    if not len(start):
        return EMPTY
    if (start[1:] > end[:-1]).all():
        return Spans(start, end)
    if not _ascending(start):
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.empty(len(start), np.bool_)
    opens[0] = True
    np.greater(start[1:], reach[:-1], out=opens[1:])
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(start)) - 1
    return Spans(start[first], reach[last])


def union_by_label(start: Int64, end: Int64, member: Int64, label: Int64, labels: int) -> list[Spans]:
    """The union of the intervals of each label below `labels`; interval i is of `label[member[i]]`."""
    found = _sweeps.union_by_label(start, end, member, label.astype(np.int8), labels) if _sweeps else None
    if found is not None:
        return [Spans(*each) for each in found]
    own = label[member] if len(label) else label
    rows = [np.flatnonzero(own == each) for each in range(labels)]
    return [union(start[chosen], end[chosen]) for chosen in rows]


def merge(*parts: Spans) -> Spans:
    """The union of several span sets."""
    filled = [part for part in parts if len(part.start)]
    if len(filled) == 1:
        return filled[0]
    if not filled:
        return EMPTY
    if _sweeps and len(filled) == 2:
        return Spans(*_sweeps.merge(*filled[0], *filled[1]))
    return union(np.concatenate([p.start for p in filled]), np.concatenate([p.end for p in filled]))


def intersect(one: Spans, other: Spans) -> Spans:
    """What is in both."""
    if not len(one.start) or not len(other.start):
        return EMPTY
    if _sweeps:
        return Spans(*_sweeps.intersect(*one, *other))
    points = np.sort(np.concatenate((*one, *other)), kind="stable")
    begin = points[:-1]
    both = contains(one, begin) & contains(other, begin)
    return union(begin[both], points[1:][both])


def subtract(spans: Spans, other: Spans) -> Spans:
    """What is in `spans` and not in `other`."""
    if not len(spans.start) or not len(other.start):
        return spans
    if _sweeps:
        return Spans(*_sweeps.subtract(*spans, *other))
    # Mostly few overlap, and the others stay as they are.
    row = np.minimum(np.searchsorted(other.end, spans.start, "right"), len(other.end) - 1)
    hit = (other.start[row] < spans.end) & (other.end[row] > spans.start)
    if not hit.any():
        return spans
    if not hit.all():
        rest = subtract(Spans(spans.start[hit], spans.end[hit]), other)
        return merge(Spans(spans.start[~hit], spans.end[~hit]), rest)
    points = np.sort(np.concatenate((*spans, *other)), kind="stable")
    begin = points[:-1]
    kept = contains(spans, begin) & ~contains(other, begin)
    return union(begin[kept], points[1:][kept])


def covered(spans: Spans, start: Int64, end: Int64) -> Int64:
    """How many ps of each window [start, end) the spans cover; one int64 a window."""
    if not len(spans.start):
        return np.zeros(len(start), np.int64)
    found: Int64 | None = _sweeps.covered(*spans, start, end) if _sweeps else None
    if found is not None:
        return found
    until: Int64 = np.cumsum(spans.end - spans.start)
    return _covered_until(spans, until, end) - _covered_until(spans, until, start)


def contains(spans: Spans, times: Int64) -> Bool:
    """Whether each time is in a span."""
    if not len(spans.start):
        return np.zeros(len(times), np.bool_)
    if len(times) > len(spans.start) and _ascending(times):
        # Where each span begins and ends among the times: far fewer searches than one a time.
        edges = np.searchsorted(times, np.stack(spans, axis=1).ravel())
        lengths = np.diff(edges, prepend=0, append=len(times))
        if (lengths >= 0).all():
            return np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)
    row = np.searchsorted(spans.start, times, "right") - 1
    return (row >= 0) & (times < spans.end[np.maximum(row, 0)])


def distinct(rows: Int64) -> tuple[Int64, Int64]:
    """The distinct values, ascending, and by element which of them it is; for row numbers, which are small.

    Counts where `numpy.unique` would sort. Values from -1 on are allowed.
    """
    values = np.flatnonzero(np.bincount(rows + 1)) - 1
    if len(values) and values[0] == 0 and values[-1] == len(values) - 1:
        return values.astype(np.int64), rows  # each is its own place
    place = np.empty(int(values.max(initial=-1)) + 2, np.int64)
    place[values + 1] = np.arange(len(values))
    return values.astype(np.int64), place[rows + 1]


def nesting(start: Int64, end: Int64) -> Int64:
    """The row of the innermost event that encloses each event, -1 for outermost ones.

    Events of one line nest by time. One that starts inside another and outlasts it (rounding does this)
    counts as its child. Events without duration enclose nothing and get -1.
    """
    found: Int64 | None = _nesting.nesting(start, end) if _nesting else None
    if found is not None:
        return found
    order = _outer_first(start, end)
    if order is None:
        return _nesting_of_ordered(start, end)
    inner = nesting(start[order], end[order])
    parent = np.full(len(start), -1, np.int64)
    parent[order] = np.where(inner >= 0, order[inner], -1) if len(order) else inner
    return parent


def _outer_first(start: Int64, end: Int64) -> Int64 | None:
    """Rows of the events that last, by start, of equal ones the longest first; None where they are in that order."""
    lasting = end > start
    tied = start[1:] == start[:-1]
    if lasting.all() and _ascending(start) and not (tied & (end[1:] > end[:-1])).any():
        return None
    rows = np.flatnonzero(lasting)
    return rows[np.lexsort((-end[rows], start[rows]))]


def _nesting_of_ordered(start: Int64, end: Int64) -> Int64:
    """Around an event is the last of those before it that began with one open event less."""
    count = len(start)
    depth = open_before(start, end)
    rows = np.arange(count)
    # Sorted by depth, then row: one search finds the last event before each that is one level up.
    by_depth = np.argsort(depth, kind="stable")
    key = depth[by_depth] * count + by_depth
    found = np.searchsorted(key, (depth - 1) * count + rows) - 1
    return np.where(depth > 0, by_depth[found], -1)


def ascending_distinct(times: Int64) -> Int64:
    """The distinct times, ascending; quicker than `numpy.unique`, which hashes before it sorts."""
    times = np.sort(times)
    return times[np.append(True, times[1:] != times[:-1])] if len(times) else times


def among(values: Int64, wanted: Int64) -> Bool:
    """Whether each value is one of those wanted: `numpy.isin` for times, which imports masked arrays for them."""
    if not len(wanted):
        return np.zeros(len(values), np.bool_)
    wanted = np.sort(wanted)
    found: Bool = wanted[np.minimum(np.searchsorted(wanted, values), len(wanted) - 1)] == values
    return found


def _ascending(times: Int64) -> bool:
    return bool((times[1:] >= times[:-1]).all())


def open_before(start: Int64, end: Int64) -> Int64:
    """How many earlier events are still open when each starts: its depth where a line's events nest.

    Events are in order of start (longer first), and none is empty.
    """
    depth: Int64 = np.arange(len(start)) - np.searchsorted(np.sort(end), start, "right")
    return depth


def flatten(start: Int64, end: Int64, parent: Int64) -> Segments:
    """Cut a line of nested events into stretches labelled with the innermost event.

    After an event starts, it is the innermost; after it ends, its parent is: so one sort of all starts
    and ends gives every stretch, without a stack.
    """
    rows = np.flatnonzero(end > start)
    depth = _depth(parent)[rows]
    count = len(rows)
    time = np.concatenate((start[rows], end[rows]))
    label = np.concatenate((rows, parent[rows]))
    is_start = np.concatenate((np.ones(count, np.int8), np.zeros(count, np.int8)))
    order = np.lexsort((np.concatenate((depth, -depth)), is_start, time))
    time, label = time[order], label[order]
    length = np.diff(time)
    keep = (length > 0) & (label[:-1] >= 0)
    return Segments(time[:-1][keep], time[1:][keep], label[:-1][keep])


def self_time(start: Int64, end: Int64) -> Int64:
    """The time in which each event is the one that began last of those open (ps).

    Of a line that nests, that is an event's duration less that of its direct children. One that outlasts the event in
    which it began (rounding does this to ops back to back) takes of it what they share, no more: the self times of a
    line add up to the time that its events cover.
    """
    found: Int64 | None = _nesting.self_time(start, end) if _nesting else None
    if found is not None:
        return found
    order = _outer_first(start, end)
    if order is None:
        return _self_time_of_ordered(start, end)
    own = np.zeros(len(start), np.int64)
    own[order] = self_time(start[order], end[order])
    return own


def _self_time_of_ordered(start: Int64, end: Int64) -> Int64:
    parent = nesting(start, end)
    inner = np.flatnonzero(parent >= 0)
    if (end[inner] > end[parent[inner]]).any():
        return _self_time_of_overlapping(start, end)
    own = end - start
    np.subtract.at(own, parent[inner], own[inner])  # a copy: the durations of inner events change as well
    return own


def _self_time_of_overlapping(start: Int64, end: Int64) -> Int64:
    """One event after the other, with a stack; only where the native walk is not there."""
    own = np.zeros(len(start), np.int64)
    opened: list[int] = []
    ends, now = end.tolist(), 0
    for row, begin in enumerate([*start.tolist(), int(end.max())]):
        while opened and ends[opened[-1]] <= begin:
            last = opened.pop()
            own[last] += max(0, ends[last] - now)
            now = max(now, ends[last])
        if opened:
            own[opened[-1]] += begin - now
        now = begin
        opened.append(row)
    return own


def inherit(label: Int64, parent: Int64, none: int = -1) -> Int64:
    """Fill each event whose label is `none` with that of its nearest labelled ancestor."""
    own = np.arange(len(label))
    source = _jump(np.where((label != none) | (parent < 0), own, parent))
    return label[source]


def _depth(parent: Int64) -> Int64:
    # Depths of ancestors are added up in strides that double, so that a million levels take twenty rounds.
    depth = (parent >= 0).astype(np.int64)
    above = parent.copy()
    rows = np.flatnonzero(above >= 0)
    while len(rows):
        depth[rows], above[rows] = depth[rows] + depth[above[rows]], above[above[rows]]
        rows = rows[above[rows] >= 0]
    return depth


def _jump(following: Int64) -> Int64:
    """Where following leads in the end, from each row; rows that lead to themselves are ends."""
    while True:
        further = following[following]
        if (further == following).all():
            return following
        following = further


def _covered_until(spans: Spans, until: Int64, time: Int64) -> Int64:
    """How much of each time's past the spans cover; `until` is the same for the end of each span."""
    row = np.searchsorted(spans.start, time, "right")
    last = np.maximum(row - 1, 0)
    ahead = np.maximum(spans.end[last] - time, 0)
    covered: Int64 = (until[last] - ahead) * (row > 0)
    return covered
