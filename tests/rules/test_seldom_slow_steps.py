"""Slow steps of a capture, and how many of the steps that follow take as long."""

import math

import pytest

from tests.rules.given import given, step, steps
from tpuprof.model.compile.recurrence import AfterCapture
from tpuprof.model.outside_capture import AS_LONG_FROM, LONG_FROM
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.run_folder import CLASSES_PER_DOUBLING

USUAL = 20.0


def length_class(ms):
    """The class of lengths that a step of so many milliseconds is noted in."""
    return int(CLASSES_PER_DOUBLING * math.log2(ms * 1_000))


def found(later, slow=200.0, noted=True, usual=12):
    """One step collects garbage, and `usual` others do not; of the 100 steps after them some take `later` (ms each)."""
    lengths = {length_class(USUAL): 100 - len(later)}
    for ms in later:
        lengths[length_class(ms)] = lengths.get(length_class(ms), 0) + 1
    seconds = ((100 - len(later)) * USUAL + sum(later)) / 1_000
    after = AfterCapture(
        100, 0, 0, 0.0, seconds, True, steps_seconds=seconds, lengths=lengths if noted else {}
    )
    captured = [*steps(usual, wall=USUAL), step(slow, usual, **{"user:gc": slow - USUAL})]
    return outcome_of(find_rule("uneven-steps"), given(steps=captured, after_capture=after))


def test_slow_steps_that_hardly_come_again_are_no_finding():
    """One collection in 160 steps was priced 13.0 of 21.8 ms per step, as one of 13 captured steps had it."""
    outcome = found([200.0])
    assert outcome.status == "passed"
    assert outcome.reason == "1 % of 100 steps after the capture took as long"


@pytest.mark.parametrize(
    ("later", "options"),
    [
        # Two of a hundred cost 3.6 of 23.6 ms.
        ([200.0, 200.0], {}),
        ([200.0 * AS_LONG_FROM * 1.2] * 8, {}),
        ([], {"noted": False}),
        # What is not twice as long as the usual step may be noise of it.
        ([], {"slow": USUAL * LONG_FROM - 1.0, "usual": 4}),
    ],
    ids=["as often", "nearly as long", "not noted", "not long"],
)
def test_slow_steps_that_may_come_again_are_one(later, options):
    assert found(later, **options).status == "failed"


def test_later_steps_that_are_shorter_are_not_as_long():
    assert found([200.0 * AS_LONG_FROM / 1.2] * 8).status == "passed"
