"""Draws any number of events as a few thousand bars: events narrower than a pixel are merged.

A row's events are merged beforehand at coarser and coarser pixels (a pyramid), so that a window of any width
reads a number of bars that depends on the screen and not on the trace. All times are ps from the run's origin.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tpuprof.model.intervals import Int64

# Each level's pixel is this many times the one below it: coarse enough to keep the pyramid small (at most
# a quarter more rows than the events), fine enough that a window reads at most four times what it draws.
_LEVEL_FACTOR = 4
# Levels stop when this many bars are left (bars): less than any screen shows.
_SMALLEST_LEVEL = 512


@dataclass(frozen=True)
class Bars:
    """Bars of one row in order of start. A bar stands for `count` events, `busy` is the sum of their durations.

    `label` is that of its longest event, which lasts `longest`.
    """

    start: Int64
    end: Int64
    label: Int64
    count: Int64
    busy: Int64
    longest: Int64

    def __len__(self) -> int:
        return len(self.start)

    def rows(self, chosen: slice) -> Bars:
        """The bars of a slice."""
        return Bars(
            *(column[chosen] for column in (self.start, self.end, self.label)),
            *(column[chosen] for column in (self.count, self.busy, self.longest)),
        )


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
    start, end, label = start[rows], end[rows], label[rows].astype(np.int64)
    return Bars(start, end, label, np.ones(len(rows), np.int64), end - start, end - start)


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
            if len(merged) < len(result.levels[-1]):
                result.levels.append(merged)
                result.pixel.append(pixel)
            pixel *= _LEVEL_FACTOR
    result.reach = [np.maximum.accumulate(level.end) if len(level) else level.end for level in result.levels]
    return result


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
