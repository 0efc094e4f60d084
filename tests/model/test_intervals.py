"""Interval arithmetic agrees with counting single picoseconds one by one."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.model import intervals as iv
from tpuprof.model.median import median, percentile_95

LIMIT = 40
pairs = st.lists(st.tuples(st.integers(0, LIMIT), st.integers(0, LIMIT)), max_size=12)


def arrays(spans):
    return np.array([s for s, _ in spans], np.int64), np.array([e for _, e in spans], np.int64)


def ticks(spans):
    return {t for start, end in spans for t in range(start, end)}


def as_set(spans):
    return ticks(zip(spans.start.tolist(), spans.end.tolist(), strict=True))


@given(pairs)
def test_union_covers_the_same_ticks_and_is_disjoint(spans):
    merged = iv.union(*arrays(spans))
    assert as_set(merged) == ticks(spans)
    assert (merged.start[1:] > merged.end[:-1]).all()
    assert merged.total == len(ticks(spans))


@given(pairs, pairs)
def test_intersect_and_merge(one, other):
    a, b = iv.union(*arrays(one)), iv.union(*arrays(other))
    assert as_set(iv.intersect(a, b)) == ticks(one) & ticks(other)
    assert as_set(iv.merge(a, b)) == ticks(one) | ticks(other)


@given(pairs, pairs)
def test_covered_counts_ticks_in_each_window(spans, windows):
    windows = [(min(w), max(w)) for w in windows]
    start, end = arrays(windows)
    found = iv.covered(iv.union(*arrays(spans)), start, end)
    assert found.tolist() == [len(ticks(spans) & ticks([window])) for window in windows]


@given(pairs, st.lists(st.integers(-2, LIMIT + 2), max_size=60), st.booleans())
def test_contains_agrees_with_counting_whatever_the_order_of_times(spans, times, ascending):
    times = sorted(times) if ascending else times
    merged = iv.union(*arrays(spans))
    inside = iv.contains(merged, np.array(times, np.int64))
    assert inside.tolist() == [time in ticks(spans) for time in times]


@given(st.lists(st.integers(-LIMIT, LIMIT)))
def test_ascending_distinct(times):
    assert iv.ascending_distinct(np.array(times, np.int64)).tolist() == sorted(set(times))


@given(st.lists(st.one_of(st.integers(-(2**40), 2**40), st.floats(-1e9, 1e9)), min_size=1))
def test_median_is_that_of_numpy(values):
    column = np.array(values)
    assert median(column) == np.median(column)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=200))
def test_95th_percentile_is_that_of_numpy(values):
    column = np.array(values)
    assert percentile_95(column) == np.percentile(column, 95)


@given(st.lists(st.integers(0, LIMIT)), st.lists(st.integers(0, LIMIT)))
def test_among_is_isin_of_numpy(values, wanted):
    values, wanted = np.array(values, np.int64), np.array(wanted, np.int64)
    assert iv.among(values, wanted).tolist() == np.isin(values, wanted).tolist()


@st.composite
def nested(draw, start=0, end=LIMIT, depth=0):
    """Properly nested intervals, each with the row of the interval around it."""
    spans = []
    at = start
    while at < end and draw(st.booleans()):
        left = draw(st.integers(at, end - 1))
        right = draw(st.integers(left + 1, end))
        children = draw(nested(left, right, depth + 1)) if depth < 3 and right - left > 1 else []
        children = [(s, e, p) for s, e, p in children if (s, e) != (left, right)]
        spans.append((left, right, -1))
        spans += [(s, e, p) for s, e, p in children]
        at = right
    return spans


def innermost(spans, tick):
    around = [row for row, (s, e) in enumerate(spans) if s <= tick < e]
    return min(around, key=lambda row: (spans[row][1] - spans[row][0], -row)) if around else None


@given(nested())
def test_flatten_labels_each_tick_with_the_innermost_event(tree):
    spans = list(dict.fromkeys((s, e) for s, e, _ in tree))
    start, end = arrays(spans)
    parent = iv.nesting(start, end)
    segments = iv.flatten(start, end, parent)
    labels = {}
    for s, e, event in zip(*(column.tolist() for column in segments), strict=True):
        for tick in range(s, e):
            assert tick not in labels
            labels[tick] = event
    assert labels == {t: innermost(spans, t) for t in range(LIMIT) if innermost(spans, t) is not None}
    own = iv.self_time(start, end)
    assert own.tolist() == [sum(1 for event in labels.values() if event == row) for row in range(len(spans))]


needs_native = pytest.mark.skipif(iv._nesting is None, reason="the native modules are not built")
# Times before the origin too, and lines that are not Spans: in any order, overlapping, negative.
lines = st.lists(st.tuples(st.integers(-5, LIMIT), st.integers(-5, LIMIT)), max_size=12)


def both_ways(work):
    """What the native walks give, and what numpy gives."""
    native = work()
    with mock.patch.object(iv, "_sweeps", None):
        return native, work()


def as_lists(spans):
    return spans.start.tolist(), spans.end.tolist()


@needs_native
@given(lines, st.booleans())
def test_unions_agree_with_numpy_to_the_last_interval(line, ordered):
    start, end = arrays(sorted(line) if ordered else line)
    native, plain = both_ways(lambda: iv.union(start, end))
    assert as_lists(native) == as_lists(plain)


@needs_native
@pytest.mark.parametrize("operation", [iv.merge, iv.intersect, iv.subtract])
@given(one=lines, other=lines)
def test_operations_on_two_sets_agree_with_numpy_to_the_last_interval(operation, one, other):
    one, other = iv.union(*arrays(one)), iv.union(*arrays(other))
    native, plain = both_ways(lambda: operation(one, other))
    assert as_lists(native) == as_lists(plain)


@needs_native
@given(lines, lines, st.booleans())
def test_covered_agrees_with_numpy_whatever_the_order_of_windows(line, windows, ordered):
    spans, windows = iv.union(*arrays(line)), arrays(sorted(windows) if ordered else windows)
    native, plain = both_ways(lambda: iv.covered(spans, *windows))
    assert native.tolist() == plain.tolist()


@given(
    st.lists(st.tuples(st.integers(-5, LIMIT), st.integers(-5, LIMIT), st.integers(0, 3)), max_size=15),
    st.booleans(),
)
def test_union_by_label_is_the_union_of_each_label(events, ordered):
    events = sorted(events) if ordered else events
    start, end = arrays([event[:2] for event in events])
    member, label = np.array([event[2] for event in events], np.int64), np.array([0, 2, 1, 2])
    for found in both_ways(lambda: iv.union_by_label(start, end, member, label, 3)):
        for each, spans in enumerate(found):
            assert as_set(spans) == ticks([event[:2] for event in events if label[event[2]] == each])
            assert (spans.start[1:] > spans.end[:-1]).all()


def test_union_by_label_without_events_or_members():
    none = np.empty(0, np.int64)
    assert [spans.total for spans in iv.union_by_label(none, none, none, none, 2)] == [0, 0]


@needs_native
def test_labels_and_members_that_are_not_there_are_refused():
    one = np.array([0], np.int64)
    for member, label in (([1], [0]), ([-1], [0]), ([0], [2]), ([0], [-1])):
        with pytest.raises(ValueError, match="not there"):
            iv._sweeps.union_by_label(one, one + 1, np.array(member), np.array(label, np.int8), 2)


@needs_native
def test_columns_of_unequal_length_are_refused():
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    for wrong in (
        lambda: iv._sweeps.union(one, two),
        lambda: iv._sweeps.merge(one, one, one, two),
        lambda: iv._sweeps.intersect(one, two, one, one),
        lambda: iv._sweeps.subtract(one, one, two, one),
        lambda: iv._sweeps.covered(one, one, one, two),
        lambda: iv._sweeps.union_by_label(one, one, two, np.zeros(1, np.int8), 1),
    ):
        with pytest.raises(ValueError, match="unequal length"):
            wrong()


@needs_native
@given(pairs, st.booleans())
def test_one_native_pass_and_numpy_agree_on_any_line(spans, ordered):
    """Nested or not, in order or not, with events that take no time."""
    spans = sorted(spans, key=lambda span: (span[0], -span[1])) if ordered else spans
    start, end = arrays(spans)
    native = iv.nesting(start, end), iv.self_time(start, end)
    with mock.patch.object(iv, "_nesting", None):
        assert native[0].tolist() == iv.nesting(start, end).tolist()
        assert native[1].tolist() == iv.self_time(start, end).tolist()


@given(pairs, st.booleans())
def test_time_belongs_to_the_event_that_began_last(spans, native):
    start, end = arrays(spans)
    own = [0] * len(spans)
    for tick in ticks(spans):
        around = [row for row, (begin, until) in enumerate(spans) if begin <= tick < until]
        own[max(around, key=lambda row: (spans[row][0], -spans[row][1], row))] += 1
    with mock.patch.object(iv, "_nesting", iv._nesting if native else None):
        assert iv.self_time(start, end).tolist() == own


def test_ops_back_to_back_that_share_a_picosecond_keep_their_time():
    assert iv.self_time(np.array([0, 4], np.int64), np.array([5, 9], np.int64)).tolist() == [4, 5]


def test_nesting_names_the_direct_parent():
    start = np.array([0, 1, 2, 6, 20], np.int64)
    end = np.array([10, 5, 3, 9, 21], np.int64)
    assert iv.nesting(start, end).tolist() == [-1, 0, 1, 0, -1]


def test_a_child_that_outlasts_its_parent_by_rounding_stays_a_child():
    start, end = np.array([0, 5], np.int64), np.array([10, 11], np.int64)
    parent = iv.nesting(start, end)
    assert parent.tolist() == [-1, 0]
    assert iv.self_time(start, end).tolist() == [5, 6]


def test_events_without_duration_enclose_nothing():
    start, end = np.array([3, 3, 0], np.int64), np.array([3, 3, 9], np.int64)
    assert iv.nesting(start, end).tolist() == [-1, -1, -1]


@pytest.mark.parametrize("function", [iv.union])
def test_no_intervals_at_all(function):
    none = np.empty(0, np.int64)
    assert function(none, none).total == 0
    assert iv.covered(iv.EMPTY, np.array([0]), np.array([5])).tolist() == [0]
    assert len(iv.flatten(none, none, none).start) == 0


def test_inherit_takes_the_nearest_labelled_ancestor():
    parent = np.array([-1, 0, 1, 1, -1], np.int64)
    label = np.array([7, -1, -1, 3, -1], np.int64)
    assert iv.inherit(label, parent).tolist() == [7, 7, 7, 3, -1]


# Events of a line that all outlast each other: as deep as they are many. What takes quadratic time on it, hangs.
STAIRCASE = 300_000


def test_a_line_that_only_gets_deeper():
    start = np.arange(STAIRCASE, dtype=np.int64)
    end = start + STAIRCASE
    assert (iv.nesting(start, end) == start - 1).all()
    assert iv.self_time(start, end).tolist() == [1] * (STAIRCASE - 1) + [STAIRCASE]
    label = np.full(STAIRCASE, -1, np.int64)
    label[0] = 5
    assert (iv.inherit(label, start - 1) == 5).all()
    assert len(iv.flatten(start, end, start - 1).start) > 0
