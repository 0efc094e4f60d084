"""Whether a cost is one of each step or of a few."""

import pytest

from tpuprof.model.in_few_steps import (
    COUNTED_FROM,
    FEW_SHARE,
    HELD_SHARE,
    IN_ONE_SHARE,
    few_of,
    said_of_few,
    said_of_mean,
)
from tpuprof.model.steps.table import TYPICAL_UP_TO
from tpuprof.model.verdict_words import NAMED_FROM_SHARE


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


@pytest.mark.parametrize(
    ("pause", "said"),
    [
        (1.01 * 800 * NAMED_FROM_SHARE / (1 - NAMED_FROM_SHARE), True),
        (0.99 * 800 * NAMED_FROM_SHARE / (1 - NAMED_FROM_SHARE), False),
    ],
)
def test_a_pause_that_makes_the_mean_longer_is_said_to(pause, said):
    """The verdict may be on what each step has: 70 % of each step of 1.08 s, where steps take 784 ms."""
    text = said_of_mean([100.0] * 7 + [100 + pause], [5.0] * 7 + [5 + pause])
    assert text == (
        f" 1 of 8 steps takes {100 + pause:.0f} ms, and the median step takes 100 ms." if said else ""
    )


@pytest.mark.parametrize(("share", "said"), [(0.01, True), (-0.01, False)])
def test_steps_that_vary_are_no_longer_ones(share, said):
    long = 100 * (TYPICAL_UP_TO + share)
    assert bool(said_of_mean([100.0] * 5 + [long] * 3, [1.0] * 5 + [long] * 3)) is said


def test_longer_work_of_the_device_is_its_own():
    assert said_of_mean([100.0] * 7 + [500.0], [5.0] * 8) == ""


def test_a_step_that_is_a_little_longer_is_not_one_of_the_few():
    text = said_of_mean([100.0] * 8 + [130.0, 900.0], [5.0] * 8 + [35.0, 805.0])
    assert text == " 1 of 10 steps takes 900 ms, and the median step takes 100 ms."


@pytest.mark.parametrize(
    ("usual", "said"), [(49.0, "the others take 150 ms on average"), (51.0, "the median step")]
)
def test_where_the_host_runs_ahead_the_median_step_is_none(usual, said):
    """67 steps of 72 ms of work each: "the median step takes 1.27 ms"."""
    # The device works for 100 ms per step, and one step of ten waits for most of it.
    waits = 1350.0 - 8 * usual
    wall = [usual] * 8 + [waits, 650.0]
    busy = [usual] * 8 + [waits, 1000 - 8 * usual - waits]
    text = said_of_mean(wall, [took - works for took, works in zip(wall, busy, strict=True)])
    assert text.startswith(" 1 of 10 steps takes 650 ms, and ")
    assert said in text
