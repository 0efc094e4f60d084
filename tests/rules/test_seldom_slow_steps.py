"""Slow steps of a capture, and how many of the steps that follow take as long."""

import math
from dataclasses import replace

import pytest

from tests.rules.given import given, step, steps
from tpuprof.model.compile.recurrence import AfterCapture, LongSteps
from tpuprof.model.later_places import LaterPlace
from tpuprof.model.long_later import LongLater
from tpuprof.model.outside_capture import AS_LONG_FROM, LONG_FROM
from tpuprof.rules.registry import find_rule
from tpuprof.rules.run.uneven_steps.rule import USUAL_FROM_SHARE
from tpuprof.rules.runner import outcome_of
from tpuprof.run_folder import CLASSES_PER_DOUBLING

USUAL = 20.0


def length_class(ms):
    """The class of lengths that a step of so many milliseconds is noted in."""
    return int(CLASSES_PER_DOUBLING * math.log2(ms * 1_000))


def found(later, slow=200.0, noted=True, usual=12, long=None):
    """One step collects garbage, and `usual` others do not; of the 100 steps after them some take `later` (ms each)."""
    lengths = {length_class(USUAL): 100 - len(later)}
    for ms in later:
        lengths[length_class(ms)] = lengths.get(length_class(ms), 0) + 1
    seconds = ((100 - len(later)) * USUAL + sum(later)) / 1_000
    after = AfterCapture(
        100,
        0,
        0,
        0.0,
        seconds,
        True,
        steps_seconds=seconds,
        lengths=lengths if noted else {},
        long=long or LongSteps(),
    )
    captured = [*steps(usual, wall=USUAL), step(slow, usual, **{"user:gc": slow - USUAL})]
    return outcome_of(find_rule("uneven-steps"), given(steps=captured, after_capture=after))


def test_slow_steps_that_hardly_come_again_are_no_finding():
    """One collection in 160 steps was priced 13.0 of 21.8 ms per step, as one of 13 captured steps had it."""
    outcome = found([200.0])
    assert outcome.status == "passed"
    assert outcome.reason == "1 % of 100 steps after the capture took as long"


@pytest.mark.parametrize(("usual_ms", "status"), [(USUAL, "passed"), (USUAL / 2, "failed")])
def test_later_steps_are_as_long_by_what_is_usual_there(usual_ms, status):
    """Recording made steps of 23 ms last 36: later steps with the same work were too short to count."""
    later = [200.0 * AS_LONG_FROM * 0.6] * 20
    assert found(later, long=LongSteps(usual_seconds=usual_ms / 1_000)).status == status


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


LATER = LongLater(10, 100, 600.0, 100.0, 1 / 3, 0, "in preview (/u/pictures.py:6)", "/u/pictures.py:6")


@pytest.mark.parametrize(("place", "confidence"), [(LATER.place, "medium"), ("", "low")])
def test_long_steps_that_no_capture_holds_are_a_finding_without_a_price(place, confidence):
    later = replace(LATER, place=place)
    outcome = outcome_of(find_rule("uneven-steps"), given(steps=steps(8, wall=100.0), long_later_steps=later))
    assert (outcome.status, outcome.confidence, outcome.price) == ("failed", confidence, None)
    assert outcome.share == pytest.approx(1 / 3)
    assert outcome.cases == {"work"}
    assert outcome.evidence[0].source == "/u/pictures.py:6"
    assert outcome.title.startswith(
        "10 of 100 steps after the capture take longer (600 ms, the usual step 100 ms): 33 % of the time there"
    )
    assert outcome.title.endswith("the training thread is in preview (/u/pictures.py:6) then") is bool(place)
    assert outcome.reason.startswith("it costs 50.0 ms per step on top of the captured steps")


@pytest.mark.parametrize(("profiles", "case"), [(True, "profiler"), (False, "work")])
def test_a_profiler_that_records_again_and_again_has_advice_of_its_own(profiles, case):
    """It took 70 of 95 ms per step, and the advice was on checkpoints."""
    later = replace(LATER, profiles=profiles)
    outcome = outcome_of(find_rule("uneven-steps"), given(steps=steps(8, wall=100.0), long_later_steps=later))
    assert outcome.cases == {case}


def test_a_place_of_a_program_without_steps_is_a_finding_without_a_price():
    later = LaterPlace(0.44, 4, "in render (/u/t.py:21)", "/u/t.py:21")
    outcome = outcome_of(find_rule("uneven-steps"), given(steps=steps(8, wall=100.0), long_later_steps=later))
    assert (outcome.status, outcome.confidence, outcome.price, outcome.share) == (
        "failed",
        "medium",
        None,
        0.44,
    )
    assert outcome.evidence[0].source == "/u/t.py:21"
    assert outcome.title == (
        "The training thread is in render (/u/t.py:21) for 44 % of the time after the capture, in 4 stretches, and in "
        "none of the captured steps"
    )


def test_slow_steps_of_the_capture_come_first():
    captured = [*steps(12, wall=USUAL), *(step(200.0, 12 + each, **{"user:gc": 180.0}) for each in range(3))]
    outcome = outcome_of(find_rule("uneven-steps"), given(steps=captured, long_later_steps=LATER))
    assert outcome.price is not None


def test_later_steps_that_are_shorter_are_not_as_long():
    assert found([200.0 * AS_LONG_FROM / 1.2] * 8).status == "passed"


@pytest.mark.parametrize(
    ("share", "status"), [(USUAL_FROM_SHARE, "passed"), (USUAL_FROM_SHARE - 0.01, "failed")]
)
def test_slow_steps_that_are_the_usual_ones_later_are_no_few(share, status):
    """A full queue of batches was used up in six steps: "2 of 8 steps take longer", as all later ones did."""
    outcome = found([200.0] * round(100 * share))
    assert outcome.status == status
    if status == "passed":
        assert (
            outcome.reason == "50 % of 100 steps after the capture took as long; that is the usual step there"
        )
