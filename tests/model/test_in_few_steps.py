"""Whether a cost is one of each step or of a few."""

import pytest

from tpuprof.model.in_few_steps import COUNTED_FROM, FEW_SHARE, HELD_SHARE, IN_ONE_SHARE, few_of, said_of_few


def test_a_cost_of_each_step_is_of_no_few():
    assert few_of([10.0] * 8) == 0
    assert said_of_few([10.0, 12.0, 7.0, 15.0, 9.0, 10.0, 11.0, 8.0]) == ""


def test_a_cost_of_two_steps_is_said_so():
    assert said_of_few([0.0, 0.0, 90.0, 0.1, 0.0, 0.0, 80.0, 0.2]) == "nearly all of it in 2 of 8 steps"


@pytest.mark.parametrize(
    ("share", "said"), [(0.02, "69 % of it in one of 8 steps"), (-0.02, "nearly all of it in 2 of 8 steps")]
)
def test_one_step_that_has_most_of_it_is_said_to(share, said):
    first = IN_ONE_SHARE + share
    assert said_of_few([first, 1 - first, *[0.0] * 6]) == said


@pytest.mark.parametrize(("held", "few"), [(HELD_SHARE, 1), (HELD_SHARE - 0.01, 2)])
def test_the_few_hold_nearly_all_of_it(held, few):
    rest = (1 - held) / 7
    assert few_of([held, *[rest] * 7]) == few


@pytest.mark.parametrize(("steps", "few"), [(round(8 * FEW_SHARE), 4), (round(8 * FEW_SHARE) + 1, 0)])
def test_half_of_the_steps_are_few_at_most(steps, few):
    assert few_of([5.0] * steps + [0.0] * (8 - steps)) == few


@pytest.mark.parametrize(("count", "few"), [(COUNTED_FROM, 1), (COUNTED_FROM - 1, 0)])
def test_of_too_few_steps_none_are_counted(count, few):
    assert few_of([5.0] + [0.0] * (count - 1)) == few


def test_no_cost_is_in_no_step():
    assert few_of([0.0] * 8) == 0
    assert few_of([]) == 0
