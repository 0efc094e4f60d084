"""What is said where steps took longer after the capture than in it."""

from dataclasses import replace

import numpy as np
import pytest

from tpuprof.model.compile.recurrence import MIN_STEPS_AFTER, AfterCapture
from tpuprof.model.outside_capture import (
    SLOWER_FROM,
    VERDICT_FROM,
    outside_capture,
    outside_of,
    said_with_the_verdict,
)

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


@pytest.mark.parametrize(("ratio", "said"), [(VERDICT_FROM - 0.01, False), (VERDICT_FROM + 0.01, True)])
def test_the_verdict_says_that_most_of_the_time_is_spent_on_what_the_capture_lacks(ratio, said):
    """Updates of a policy, say, of which eight are captured, and no rollout."""
    sentence = said_with_the_verdict(
        [None, outside_of(CAPTURED, after(10)), outside_of(CAPTURED, after(10 * ratio))]
    )
    assert bool(sentence) is said
    assert not said or "20 steps after the capture took 20.1 ms on average" in sentence


@pytest.mark.parametrize(("steps_seconds", "said"), [(0.2, 0), (None, 1)])
def test_what_comes_after_the_last_step_is_no_step(steps_seconds, said):
    """Twenty steps of 10 ms, then an evaluation of 3 s; older notes do not tell the two apart."""
    found = replace(after(160), steps_seconds=steps_seconds)
    assert len(outside_capture(CAPTURED, found)) == said
