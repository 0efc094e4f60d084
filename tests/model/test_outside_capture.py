"""What is said where steps took longer after the capture than in it."""

import numpy as np
import pytest

from tpuprof.model.compile.recurrence import MIN_STEPS_AFTER, AfterCapture
from tpuprof.model.outside_capture import SLOWER_FROM, outside_capture

CAPTURED = np.array([10, 10, 10], np.int64) * 10**9


def after(ms, steps=MIN_STEPS_AFTER, compiling=0.0):
    return AfterCapture(steps, 0, 0, compiling, ms * steps / 1_000 + compiling, True)


@pytest.mark.parametrize(("ratio", "said"), [(SLOWER_FROM - 0.01, 0), (SLOWER_FROM + 0.01, 1)])
def test_longer_steps_after_the_capture_are_said(ratio, said):
    found = outside_capture(CAPTURED, after(10 * ratio))
    assert len(found) == said
    assert not said or "the captured ones took 10.0 ms" in found[0]


def test_compiles_are_left_out():
    assert not outside_capture(CAPTURED, after(10, compiling=60.0))


@pytest.mark.parametrize("few", [None, after(100, MIN_STEPS_AFTER - 1)])
def test_few_steps_tell_nothing(few):
    assert not outside_capture(CAPTURED, few)
