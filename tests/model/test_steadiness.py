"""Outlier steps, drift and the profiler's own effect."""

import numpy as np
import pytest

from tpuprof.model.steadiness import (
    DRIFT_FROM,
    MAX_OUTLIERS,
    MIN_STEPS,
    OUTLIER_FACTOR,
    find_drift,
    find_outliers,
    profiler_effect,
)

MS = 10**9


def walls(*ms):
    return np.array([round(each * MS) for each in ms], np.int64)


def test_an_outlier_names_what_it_had_more_of():
    wall = walls(10, 10.1, 9.9, 10, 25, 10.05)
    parts = {
        "compute": walls(9, 9, 9, 9, 9, 9),
        "user:gc": walls(0, 0, 0, 0, 14, 0),
        "tracing": wall - walls(*[9] * 6),
    }
    parts["tracing"] = walls(1, 1.1, 0.9, 1, 2, 1.05)
    (found,), count = find_outliers(wall, parts)
    assert count == 1
    assert (found.row, [name for name, _ in found.reasons]) == (4, ["user:gc"])
    assert found.excess_ps == pytest.approx(15 * MS, rel=0.01)


@pytest.mark.parametrize(("factor", "count"), [(OUTLIER_FACTOR - 0.01, 0), (OUTLIER_FACTOR + 0.01, 1)])
def test_how_much_longer_an_outlier_must_be(factor, count):
    assert find_outliers(walls(10, 10, 10, 10, 10 * factor), {})[1] == count


def test_few_steps_have_no_outliers():
    assert find_outliers(walls(*[10] * (MIN_STEPS - 2), 50), {}) == ([], 0)


@pytest.mark.parametrize(("total", "told"), [(DRIFT_FROM * 0.8, False), (DRIFT_FROM * 1.3, True)])
def test_how_much_drift_is_told(total, told):
    wall = walls(*(10 * (1 + total * i / 29) for i in range(30)))
    drift = find_drift(wall)
    assert (drift is not None) == told
    if drift:
        assert drift.change_ps == pytest.approx(10 * MS * total, rel=0.01)


def test_noise_is_no_drift():
    rng = np.random.default_rng(0)
    found = [find_drift((10 * MS * (1 + 0.2 * rng.standard_normal(40))).astype(np.int64)) for _ in range(100)]
    assert sum(each is not None for each in found) <= 5


def test_the_profilers_effect_needs_enough_of_both():
    assert profiler_effect([110, 111, 109], [100, 100, 101]) == pytest.approx(1.1)
    assert profiler_effect([110, 111], [100, 100, 101]) is None


def test_only_the_longest_of_many_outliers_are_looked_into():
    wall = np.full(10_000, 10 * MS, np.int64)
    wall[::10] = np.arange(1000) * MS + 100 * MS
    found, count = find_outliers(wall, {"tracing": wall})
    assert (len(found), count) == (MAX_OUTLIERS, 1000)
    assert [each.row for each in found[:2]] == [9990, 9980]
