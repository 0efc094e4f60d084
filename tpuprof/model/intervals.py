"""Arithmetic on time intervals, vectorised: unions, differences, coverage, nesting.

All times are int64 picoseconds from the run's origin. A `Spans` is a set of half-open intervals
[start, end), ascending and disjoint; every function returns exact integers, never rounded ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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
    keep = end > start
    if not keep.all():
        start, end = start[keep], end[keep]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.empty(len(start), np.bool_)
    opens[0] = True
    np.greater(start[1:], reach[:-1], out=opens[1:])
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(start)) - 1
    return Spans(start[first], reach[last])


def merge(*parts: Spans) -> Spans:
    """The union of several span sets."""
    filled = [part for part in parts if len(part.start)]
    if len(filled) == 1:
        return filled[0]
    if not filled:
        return EMPTY
    return union(np.concatenate([p.start for p in filled]), np.concatenate([p.end for p in filled]))


def intersect(one: Spans, other: Spans) -> Spans:
    """What lies in both."""
    if not len(one.start) or not len(other.start):
        return EMPTY
    points = np.unique(np.concatenate((*one, *other)))
    begin = points[:-1]
    both = contains(one, begin) & contains(other, begin)
    return union(begin[both], points[1:][both])


def covered(spans: Spans, start: Int64, end: Int64) -> Int64:
    """How many ps of each window [start, end) the spans cover; one int64 a window."""
    if not len(spans.start):
        return np.zeros(len(start), np.int64)
    return _covered_until(spans, end) - _covered_until(spans, start)


def contains(spans: Spans, times: Int64) -> Bool:
    """Whether each time lies in a span."""
    if not len(spans.start):
        return np.zeros(len(times), np.bool_)
    row = np.searchsorted(spans.start, times, "right") - 1
    return (row >= 0) & (times < spans.end[np.maximum(row, 0)])


def nesting(start: Int64, end: Int64) -> Int64:
    """The row of the innermost event that encloses each event, -1 for outermost ones.

    Events of one line nest by time. One that starts inside another and outlasts it (rounding does this)
    counts as its child. Events without duration enclose nothing and get -1.
    """
    parent = np.full(len(start), -1, np.int64)
    rows = np.flatnonzero(end > start)
    if not len(rows):
        return parent
    rows = rows[np.lexsort((-end[rows], start[rows]))]
    depth = open_before(start[rows], end[rows])
    outer = np.flatnonzero(depth == 0)
    for level in range(1, int(depth.max()) + 1):
        inner = np.flatnonzero(depth == level)
        parent[rows[inner]] = rows[outer[np.searchsorted(outer, inner) - 1]]
        outer = inner
    return parent


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


def self_time(start: Int64, end: Int64, parent: Int64) -> Int64:
    """Each event's duration less that of its direct children, never below zero (ps)."""
    duration = end - start
    spent = np.zeros(len(start), np.int64)
    child = np.flatnonzero(parent >= 0)
    np.add.at(spent, parent[child], duration[child])
    own: Int64 = np.maximum(duration - spent, 0)
    return own


def inherit(label: Int64, parent: Int64, none: int = -1) -> Int64:
    """Fill each event whose label is `none` with that of its nearest labelled ancestor."""
    resolved = label.copy()
    depth = _depth(parent)
    for level in range(1, int(depth.max(initial=0)) + 1):
        rows = np.flatnonzero((depth == level) & (resolved == none))
        resolved[rows] = resolved[parent[rows]]
    return resolved


def _depth(parent: Int64) -> Int64:
    depth = np.zeros(len(parent), np.int64)
    rows = np.flatnonzero(parent >= 0)
    above = parent[rows]
    while len(rows):
        depth[rows] += 1
        above = parent[above]
        keep = above >= 0
        rows, above = rows[keep], above[keep]
    return depth


def _covered_until(spans: Spans, time: Int64) -> Int64:
    length = spans.end - spans.start
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(length)))
    row = np.searchsorted(spans.start, time, "right")
    last = np.maximum(row - 1, 0)
    inside = np.minimum(time, spans.end[last]) - spans.start[last]
    until: Int64 = (before[last] + inside) * (row > 0)
    return until
