"""Bars stand for all events, whatever the zoom, and never are too many."""

import numpy as np
import pytest

from tpuprof.timeline.level_of_detail import bars_of, merge_narrow, pyramid, window, windows

# Memory of one event in a timeline, all levels of detail together (bytes): 28 of its own, and the levels'.
MOST_BYTES = 50


def row(*events):
    start, end, label = (np.array(column, np.int64) for column in zip(*events, strict=True))
    return bars_of(start, end, label)


def random_row(count, seed=0):
    rng = np.random.default_rng(seed)
    start = np.cumsum(rng.integers(1, 2_000, count))
    length = np.minimum(rng.integers(1, 3_000, count), np.append(np.diff(start), 1_000))
    return bars_of(start, start + length, rng.integers(0, 7, count))


def test_narrow_neighbours_become_one_bar_named_by_the_longest():
    merged = merge_narrow(row((0, 10, 1), (20, 50, 2), (60, 65, 3)), 100)
    assert [merged.start[0], merged.end[0], merged.label[0]] == [0, 65, 2]
    assert [merged.count[0], merged.busy[0], merged.longest[0]] == [3, 45, 30]


def test_wide_bars_are_never_merged():
    merged = merge_narrow(row((0, 5, 1), (5, 205, 2), (206, 209, 3), (210, 212, 4)), 100)
    assert merged.start.tolist() == [0, 5, 206]
    assert merged.count.tolist() == [1, 1, 2]


def test_events_without_duration_are_left_out():
    assert len(row((0, 0, 1), (5, 6, 2))) == 1


@pytest.mark.parametrize("pixel", [0, 1, 100, 10_000, 10**7])
def test_no_event_and_no_time_is_lost(pixel):
    bars = random_row(20_000)
    levels = pyramid(bars)
    drawn = window(levels, 0, int(bars.end.max()) + 1, pixel)
    assert drawn.count.sum() == len(bars)
    assert drawn.busy.sum() == bars.busy.sum()
    assert (np.diff(drawn.start) >= 0).all()
    assert drawn.start[0] == bars.start[0]
    assert drawn.end.max() == bars.end.max()


def test_a_window_holds_what_touches_it():
    bars = random_row(5_000, seed=1)
    low, high = 1_000_000, 1_400_000
    drawn = window(pyramid(bars), low, high, 0)
    touching = (bars.end > low) & (bars.start < high)
    assert drawn.start.tolist() == bars.start[touching].tolist()


def test_a_long_event_that_began_before_the_window_is_in_it():
    bars = row((0, 10**9, 1), *((n * 100, n * 100 + 50, 2) for n in range(1, 3_000)))
    drawn = window(pyramid(bars), 200_000, 200_100, 10)
    assert 1 in drawn.label.tolist()


def test_bars_of_all_rows_stay_below_the_limit():
    rows = [pyramid(random_row(30_000, seed)) for seed in range(6)]
    drawn, pixel = windows(rows, 0, 60_000_000, 1_200, 1_000)
    assert sum(map(len, drawn)) <= 1_000
    assert pixel >= 60_000_000 // 1_200


def test_a_window_looks_at_few_bars_whatever_the_trace():
    levels = pyramid(random_row(200_000))
    for level, merged_at in zip(levels.levels[1:], levels.pixel[1:], strict=True):
        # Of neighbours, at least one is wide or begins in the next pixel.
        extent = int(level.end.max() - level.start[0])
        assert len(level) <= 3 * (extent // merged_at + 2)
    assert len(levels.levels[-1]) < 2_000


@pytest.mark.parametrize("gap", [0, 500])
def test_a_timeline_takes_few_bytes_for_each_event(gap):
    """Busy rows, whose bars are as wide as their mean distance, have levels as well: counted, arrays shared once."""
    start = np.arange(100_000) * (1_000 + gap)
    levels = pyramid(bars_of(start, start + 1_000, np.zeros(len(start), np.int64)))
    columns = [column for level in levels.levels for column in vars(level).values()] + levels.reach
    owned = {id(each.base if each.base is not None else each): each for each in columns if each.strides[0]}
    assert len(levels.levels) > 4
    assert sum(each.nbytes for each in owned.values()) <= MOST_BYTES * len(start)


def test_an_empty_row_has_no_bars():
    none = np.empty(0, np.int64)
    assert len(window(pyramid(bars_of(none, none, none)), 0, 10, 1)) == 0
