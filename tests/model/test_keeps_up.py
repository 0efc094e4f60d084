"""A host that keeps up in the captured steps may not do so in the later ones."""

import pytest

from tpuprof.analysis.sections.keeps_up import in_captured_steps
from tpuprof.model.outside_capture import SLOWER_FROM, Outside
from tpuprof.units import PS_PER_MS

VERDICT = "Device-bound: the device is busy for 97 % of each step (176 ms of 182 ms); the host keeps up."
LONGER = (
    "Device-bound: the device is busy for 97 % of each step (176 ms of 182 ms); the host keeps up in these steps, "
    "while those after the capture took 242 ms on average."
)


def outside(ms, captured=182.0):
    return Outside(60, ms * PS_PER_MS, captured * PS_PER_MS)


def test_where_later_steps_take_longer_it_keeps_up_in_the_captured_ones():
    """MONAI's transforms fell behind once the loader's queue was empty: 242 ms per step, "the host keeps up"."""
    assert in_captured_steps(VERDICT, [outside(242)]) == LONGER
    assert in_captured_steps(VERDICT, [None, outside(182), outside(242)]) == LONGER


@pytest.mark.parametrize(("ratio", "said"), [(SLOWER_FROM + 0.01, True), (SLOWER_FROM - 0.01, False)])
def test_steps_that_are_hardly_longer_change_nothing(ratio, said):
    assert (in_captured_steps(VERDICT, [outside(182 * ratio)]) != VERDICT) is said


def test_nothing_is_known_without_notes():
    assert in_captured_steps(VERDICT, [None]) == VERDICT
    assert (
        in_captured_steps("Host-bound: the device idles.", [outside(400)]) == "Host-bound: the device idles."
    )
