"""Draws any number of events as a few thousand bars: events narrower than a pixel are merged.

A row's events are merged beforehand at coarser and coarser pixels (a pyramid), so that a window of any width
reads a number of bars that depends on the screen and not on the trace. All times are ps from the run's origin.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tpuprof.model.intervals import Int64

Labels = npt.NDArray[np.integer[Any]]

# Each level's pixel is this many times the one below it or more: coarse enough to keep the pyramid small (at most as
# many rows again as the events), fine enough that a window reads few times what it draws.
_LEVEL_FACTOR = 4
# A level is kept where it has so many times fewer bars than the one below it: one that has nearly as many takes as much
# memory, and saves nobody anything.
_LEAST_SHRINK = 2
# Levels stop when this many bars are left (bars): less than any screen shows.
_SMALLEST_LEVEL = 512


@dataclass(frozen=True)
class Bars:
    """Bars of one row in order of start. A bar stands for `count` events, `busy` is the sum of their durations.

    `label` is that of its longest event, which lasts `longest`.
    """

    start: Int64
    end: Int64
    label: Labels
    count: Int64
    busy: Int64
    longest: Int64

    def __len__(self) -> int:
        return len(self.start)

    def rows(self, chosen: slice) -> Bars:
        """The bars of a slice."""
        times, sums = (self.start, self.end), (self.count, self.busy, self.longest)
        start, end = (column[chosen] for column in times)
        return Bars(start, end, self.label[chosen], *(column[chosen] for column in sums))


@dataclass
class Pyramid:
    """One row of events at several levels of detail; `pixel[i]` is what level i was merged at, 0 for the events."""

    levels: list[Bars]
    pixel: list[int]
    reach: list[Int64] = field(default_factory=list)


def bars_of(start: Int64, end: Int64, label: Int64) -> Bars:
    """Events as bars of one event each, in order of start. Events without duration are left out."""
    rows = np.flatnonzero(end > start)
    rows = rows[np.argsort(start[rows], kind="stable")]
    start, end, label = start[rows], end[rows], label[rows].astype(np.int32)
    # A timeline of millions of events is mostly these columns: what they share is in memory once.
    one, length = np.broadcast_to(np.int64(1), len(rows)), end - start
    return Bars(start, end, label, one, length, length)


def merge_narrow(bars: Bars, pixel: int) -> Bars:
    """Merge neighbours narrower than `pixel` ps that begin in the same pixel; wider bars stay as they are."""
    if not len(bars) or pixel <= 0:
        return bars
    wide = bars.end - bars.start >= pixel
    column = bars.start // pixel
    opens = np.ones(len(bars), np.bool_)
    opens[1:] = wide[1:] | wide[:-1] | (column[1:] != column[:-1])
    first = np.flatnonzero(opens)
    if len(first) == len(bars):
        return bars
    longest = np.maximum.reduceat(bars.longest, first)
    size = np.diff(np.append(first, len(bars)))
    leading = np.flatnonzero(bars.longest == np.repeat(longest, size))
    _, at = np.unique(np.repeat(np.arange(len(first)), size)[leading], return_index=True)
    return Bars(
        bars.start[first],
        np.maximum.reduceat(bars.end, first),
        bars.label[leading[at]],
        np.add.reduceat(bars.count, first),
        np.add.reduceat(bars.busy, first),
        longest,
    )


def pyramid(bars: Bars) -> Pyramid:
    """Merge a row at coarser and coarser pixels, beginning at its events' mean distance."""
    result = Pyramid([bars], [0])
    if len(bars):
        pixel = max(int(bars.end.max() - bars.start[0]) // len(bars), 1)
        while len(result.levels[-1]) > _SMALLEST_LEVEL and pixel < 2**60:
            merged = merge_narrow(result.levels[-1], pixel)
            if len(merged) * _LEAST_SHRINK <= len(result.levels[-1]):
                result.levels.append(merged)
                result.pixel.append(pixel)
            pixel *= _LEVEL_FACTOR
    result.reach = [_reach(level.end) for level in result.levels]
    return result


def _reach(end: Int64) -> Int64:
    """How far the bars up to each one reach: their own ends, where none ends after its successor."""
    return end if (end[1:] >= end[:-1]).all() else np.maximum.accumulate(end)


def window(row: Pyramid, start: int, end: int, pixel: int) -> Bars:
    """The bars of a row that touch [start, end), those narrower than `pixel` merged.

    Only bars of the finest level that is not finer than needed are looked at.
    """
    level = max(index for index, merged_at in enumerate(row.pixel) if merged_at <= max(pixel, 0))
    bars = row.levels[level]
    first = int(np.searchsorted(row.reach[level], start, "right"))
    last = int(np.searchsorted(bars.start, end, "left"))
    return merge_narrow(bars.rows(slice(first, max(first, last))), pixel)


def windows(rows: list[Pyramid], start: int, end: int, pixels: int, most: int) -> tuple[list[Bars], int]:
    """Bars of several rows for a screen `pixels` wide, `most` in all at most, and the pixel (ps) they needed."""
    pixel = max((end - start) // max(pixels, 1), 1)
    while True:
        drawn = [window(row, start, end, pixel) for row in rows]
        if sum(map(len, drawn)) <= most or pixel > end - start:
            return drawn, pixel
        pixel *= 2
