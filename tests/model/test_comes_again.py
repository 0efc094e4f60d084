"""Work that one captured step holds: whether long later steps are at its lines, and what that costs per step."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.model.test_later_part import sampled
from tests.model.test_long_later import stack
from tpuprof.model.comes_again import later_cost
from tpuprof.model.compile.recurrence import MIN_STEPS_AFTER, AfterCapture, LongSteps
from tpuprof.model.long_later import AT_ONE_PLACE, NEVER_BEFORE, SAMPLES_FROM

MAIN, MINE, READ = "<module> (/u/main.py:{})", "mine (/u/main.py:62)", "<module> (/u/main.py:82)"
TRAIN = [MAIN.format(30)]
MINING = [MAIN.format(40), MINE]


def host(*parts, stacks, judged=100, wall=100):
    """Steps of that length, the third of which mines; half of 20 later steps of 1.1 s each do, of `judged` ones."""
    long = LongSteps(judged, 31.0, 0.1, 20, 22.0, [], stacks)
    after = AfterCapture(120, 0, 0, 0.0, 32.0, True, long=long)
    steps = np.arange(8) * wall
    return SimpleNamespace(
        after_steps=after,
        steps=SimpleNamespace(start=steps, end=steps + wall),
        activity=SimpleNamespace(samples=sampled(*parts)),
    )


CAPTURED = [(TRAIN, 200), (MINING, 70), (TRAIN, 530)]
LOOKS = {stack(*MINING): 10, stack(READ): 10}


def test_half_of_the_looks_stand_for_half_of_what_later_steps_take_more():
    assert later_cost(host(*CAPTURED, stacks=LOOKS), 2) == pytest.approx(0.5 * 20 * 1000 / 100)


def test_looks_elsewhere_stand_for_nothing():
    assert later_cost(host(*CAPTURED, stacks={stack(READ): 20}), 2) == 0


@pytest.mark.parametrize(("looks", "known"), [(SAMPLES_FROM, True), (SAMPLES_FROM - 1, False)])
def test_few_looks_tell_nothing(looks, known):
    assert (later_cost(host(*CAPTURED, stacks={stack(*MINING): looks}), 2) is not None) is known


@pytest.mark.parametrize(("judged", "known"), [(MIN_STEPS_AFTER, True), (MIN_STEPS_AFTER - 1, False)])
def test_few_steps_tell_nothing(judged, known):
    assert (later_cost(host(*CAPTURED, stacks=LOOKS, judged=judged), 2) is not None) is known


@pytest.mark.parametrize(("share", "known"), [(AT_ONE_PLACE, True), (AT_ONE_PLACE - 0.02, False)])
def test_the_step_must_be_there_for_most_of_its_time(share, known):
    mining = round(100 * share)
    parts = [(TRAIN, 200), (MINING, mining), (TRAIN, 600 - mining)]
    assert (later_cost(host(*parts, stacks=LOOKS), 2) is not None) is known


@pytest.mark.parametrize(("share", "known"), [(0.8 * NEVER_BEFORE, True), (1.2 * NEVER_BEFORE, False)])
def test_what_other_steps_do_as_well_is_no_place_of_its_own(share, known):
    other = round(7000 * share)
    parts = [(TRAIN, 2000), (MINING, 1000), (MINING, other), (TRAIN, 5000 - other)]
    assert (later_cost(host(*parts, stacks=LOOKS, wall=1000), 2) is not None) is known


def test_without_samples_or_later_steps_nothing_is_known():
    there = host(*CAPTURED, stacks=LOOKS)
    assert later_cost(SimpleNamespace(**{**vars(there), "after_steps": None}), 2) is None
    assert (
        later_cost(SimpleNamespace(**{**vars(there), "activity": SimpleNamespace(samples=None)}), 2) is None
    )
    none = replace(there.activity.samples, stacks=[])
    assert (
        later_cost(SimpleNamespace(**{**vars(there), "activity": SimpleNamespace(samples=none)}), 2) is None
    )


def test_a_step_that_nobody_looked_into_is_at_no_place():
    """What is seldom anywhere would be its own: a look in a hundred steps."""
    there = host(*CAPTURED, stacks=LOOKS)
    samples = sampled((TRAIN, 400_000), (MINING, 100))
    nowhere = SimpleNamespace(**{**vars(there), "activity": SimpleNamespace(samples=samples)})
    nowhere.steps = SimpleNamespace(start=np.array([600_000]), end=np.array([600_100]))
    assert later_cost(nowhere, 0) is None
