"""Events added up by op, natively and by numpy."""

from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.model.device import op_sums as sums
from tpuprof.model.intervals import Spans

OPS = 3
# (op, start, duration, self time)
events = st.lists(
    st.tuples(st.integers(0, OPS - 1), st.integers(-5, 40), st.integers(0, 9), st.integers(0, 9)), max_size=20
)
# Boundaries of steps that touch; the last may end before it begins only if there is none.
steps = st.lists(st.integers(0, 40), max_size=6, unique=True).map(sorted)


def columns(rows):
    op, start, lasts, own = (np.array([row[at] for row in rows], np.int64) for at in range(4))
    return op, start, start + lasts, own


def added_up(rows, bounds):
    """One event after the other."""
    table = [[0] * 7 for _ in range(OPS)]
    for op, start, lasts, own in rows:
        inside = any(begin <= start < end for begin, end in pairwise(bounds))
        for at, value in enumerate((1, lasts, own, *((1, own, start, start + lasts) if inside else ()))):
            table[op][at] += value
    return table


@given(events, steps, st.booleans())
def test_sums_are_those_of_one_event_after_the_other(rows, bounds, ordered):
    rows = sorted(rows, key=lambda row: row[1]) if ordered else rows
    spans = Spans(np.array(bounds[:-1], np.int64), np.array(bounds[1:], np.int64))
    found = sums.op_sums(*columns(rows), OPS, spans)
    with mock.patch.object(sums, "_op_sums", None):
        plain = sums.op_sums(*columns(rows), OPS, spans)
    for each in (found, plain):
        assert np.array(each).T.tolist() == added_up(rows, bounds)


@pytest.mark.skipif(sums._op_sums is None, reason="the native module is not built")
def test_ops_that_are_not_there_are_refused():
    one = np.zeros(1, np.int64)
    for op in (-1, OPS):
        with pytest.raises(ValueError, match="not there"):
            sums._op_sums.add_up(one + op, one, one, one, OPS, one, one)
    with pytest.raises(ValueError, match="unequal length"):
        sums._op_sums.add_up(one, one, one, np.zeros(2, np.int64), OPS, one, one)
