"""Bounds of a change hold what they promise, on numbers whose truth is known."""

import numpy as np
import pytest

from tpuprof.compare.noise import MIN_STEPS, block_length, compare, means, medians


def told(base, candidate, statistic=medians):
    return compare(np.array(base, float), np.array(candidate, float), statistic)


def test_the_same_steps_do_not_differ_and_bounds_repeat():
    walls = np.random.default_rng(1).normal(10, 1, 12)
    change = told(walls, walls)
    assert (change.delta, change.beyond_noise) == (0, False)
    assert told(walls, walls) == change
    assert change.low < 0 < change.high


def test_a_clear_change_is_told_with_its_size_inside_the_bounds():
    random = np.random.default_rng(2)
    change = told(random.normal(10, 0.2, 20), random.normal(12, 0.2, 20))
    assert change.beyond_noise
    assert change.low < 2 < change.high
    assert change.ratio == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("count", [MIN_STEPS - 1, MIN_STEPS])
def test_too_few_steps_have_no_bounds(count):
    change = told([10.0] * count, [20.0] * count)
    assert (change.low is None) == (count < MIN_STEPS)
    assert change.beyond_noise is (count >= MIN_STEPS)


@pytest.mark.parametrize(("steps", "statistic"), [(6, medians), (6, means), (12, medians), (40, means)])
@pytest.mark.parametrize("carried_over", [0.0, 0.4])
def test_runs_that_do_not_differ_are_told_apart_in_at_most_a_tenth_of_tries(steps, statistic, carried_over):
    """Bounds of 95 % may fail in 5 %; a slow step that slows the next makes it harder."""
    random = np.random.default_rng(3)

    def walls():
        noise = random.normal(0, 1, steps + 20)
        for index in range(1, len(noise)):
            noise[index] += carried_over * noise[index - 1]
        return 10 + noise[20:]

    wrong = sum(told(walls(), walls(), statistic).beyond_noise for _ in range(200))
    assert wrong <= 20


def test_blocks_grow_with_the_steps():
    assert [block_length(steps) for steps in (4, 12, 64, 1000)] == [2, 2, 4, 10]
