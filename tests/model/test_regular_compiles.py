"""Compiles at a steady rate come again: a weight that a schedule raises every ten steps."""

import numpy as np
import pytest

from tpuprof.model.compile.recurrence import Returns, are_regular, returns

STEPS = np.arange(38)


@pytest.mark.parametrize(
    ("compiling", "regular"),
    [
        ([9, 19, 29], True),
        ([9, 9, 19, 29], True),
        # Of two nothing is known; others come at no steady rate, or came early on alone; and one per step is no rate.
        ([9, 19], False),
        ([9, 19, 30], False),
        ([0, 5, 10], False),
        ([18, 23, 28], False),
        ([35, 36, 37], False),
    ],
)
def test_as_far_from_each_other_and_all_along_is_regular(compiling, regular):
    assert are_regular(compiling, STEPS) == regular


def test_regular_compiles_return_where_nothing_was_counted_later():
    """ "It is unknown whether compiles come again", of a run that compiled in every tenth of its 200 steps."""
    assert returns("main (train.py:98)", 3, 38, None, regular=True) is Returns.YES
    assert returns("main (train.py:98)", 3, 38, None) is Returns.UNKNOWN
