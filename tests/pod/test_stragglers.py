"""Planted stragglers are named with their lag; hosts that keep pace are not."""

import numpy as np
import pytest

from tests.pod.pods import MS, pod, summary
from tpuprof.model.hosts import STRAGGLER_FROM
from tpuprof.pod.heat_map import CELLS, heat_map, skew_ms
from tpuprof.pod.lateness import find_lateness


@pytest.mark.parametrize("collectives", [0, 1, 7])
def test_a_hundred_planted_stragglers_are_named_with_their_lag(collectives):
    rng = np.random.default_rng(7 + collectives)
    for _ in range(100):
        hosts, steps = int(rng.integers(3, 65)), int(rng.integers(5, 40))
        row, lag = int(rng.integers(hosts)), int(rng.uniform(0.07, 0.6) * 50 * MS)
        [found] = find_lateness(pod(rng, hosts, steps, collectives, {row: lag}))
        assert [each.host for each in found.stragglers] == [f"h{row:04}"]
        assert found.stragglers[0].lag_ps == pytest.approx(lag, rel=0.05)
        assert found.stragglers[0].part == "compute"
        assert found.stragglers[0].steps == steps


def test_several_stragglers_stand_in_order():
    lags = {3: 20 * MS, 40: 5 * MS, 17: 10 * MS}
    [found] = find_lateness(pod(np.random.default_rng(1), 64, 12, 5, lags))
    assert [each.host for each in found.stragglers] == ["h0003", "h0017", "h0040"]
    assert [each.lag_ps / MS for each in found.stragglers] == pytest.approx([20, 10, 5], rel=0.05)


def test_hosts_that_keep_pace_are_no_stragglers():
    for seed in range(30):
        [found] = find_lateness(pod(np.random.default_rng(seed), 48, 10, seed % 4, {}))
        assert found.stragglers == []


@pytest.mark.parametrize(("share", "named"), [(STRAGGLER_FROM * 0.9, False), (STRAGGLER_FROM * 1.15, True)])
def test_from_which_lag_a_host_is_named(share, named):
    step = 50 * MS * (1 + share)
    [found] = find_lateness(pod(np.random.default_rng(2), 32, 10, 3, {5: int(share * step)}))
    assert [each.host for each in found.stragglers] == (["h0005"] if named else [])


def test_the_chip_that_holds_its_host_up_is_named():
    spent, work = np.full((6, 2), 5 * MS), np.full((6, 2), 20 * MS)
    hosts = [summary(f"h{row}", spent, work, chips=4) for row in range(5)]
    hosts.append(summary("slow", spent - 4 * MS, work + 4 * MS, chips=4, chip=2))
    [found] = find_lateness(hosts)
    assert [(each.host, each.chip) for each in found.stragglers] == [("slow", "TPU:2")]


def test_hosts_of_other_programs_are_not_compared():
    quick = [summary(f"a{row}", np.zeros((5, 1), np.int64), np.full((5, 1), MS)) for row in range(4)]
    slow = [
        summary(f"b{row}", np.zeros((5, 1), np.int64), np.full((5, 1), 9 * MS), program="other")
        for row in range(3)
    ]
    found = find_lateness([*quick, *slow])
    assert [(len(each.hosts), each.stragglers) for each in found] == [(4, []), (3, [])]


def test_a_host_that_was_captured_later_is_left_out_and_named():
    rng = np.random.default_rng(3)
    hosts = pod(rng, 9, 10, 2, {4: 20 * MS})
    late = summary("late", np.full((10, 2), MS), np.full((10, 2), 25 * MS), first=900)
    [found] = find_lateness([*hosts, late])
    assert found.left_out == ["late"]
    assert [each.host for each in found.stragglers] == ["h0004"]


def test_the_heat_map_stays_small_and_keeps_the_one_late_step():
    hosts = pod(np.random.default_rng(4), 1024, 1000, 1, {})
    slow = hosts[77]
    spent = slow.barriers.spent.copy()
    others = [each.barriers.spent for each in hosts if each is not slow]
    for each in others:
        each[503] += 40 * MS
    assert spent[503] == slow.barriers.spent[503]
    compared = find_lateness(hosts)
    drawn = heat_map(compared)
    cells = np.array(drawn.late_ms)
    assert cells.size <= CELLS
    assert cells.shape == (1024, len(drawn.steps))
    row, column = np.unravel_index(int(cells.argmax()), cells.shape)
    assert drawn.hosts[row] == "h0077"
    assert drawn.steps[column] <= 503 < drawn.steps[column] + drawn.steps_per_column
    assert cells.max() == pytest.approx(40, rel=0.05)
    assert skew_ms(compared) < 5


def test_one_host_has_no_heat_map():
    assert find_lateness(pod(np.random.default_rng(0), 1, 5, 1, {})) == []
    assert heat_map([]).hosts == []
    assert skew_ms([]) is None
