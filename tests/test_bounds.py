"""Numbers that cannot be are not shown."""

import math

import pytest

from tpuprof.bounds import checked, is_inconsistent


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.5, 0.5), (1.0, 1.0), (1.02, 1.0), (1.03, None), (-0.01, None), (math.nan, None), (0.0, 0.0)],
)
def test_a_number_above_its_bound_is_inconsistent(value, shown):
    found = checked(value, "MFU", at_most=1.0, bound="the peak", show=str)
    assert found.value == shown
    assert is_inconsistent(found.note) is (shown is None)
    if value > 1.02:
        assert found.note == "inconsistent: MFU is 1.03, above the peak"


def test_what_is_unknown_or_has_no_bound_stays():
    assert checked(None, "x", at_most=1.0, bound="", show=str) == (None, "")
    assert checked(5.0, "x", at_most=None, bound="", show=str) == (5.0, "")
