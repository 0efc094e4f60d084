"""Predicted time from a compiled program's schedule."""

import pytest

from tests.preflight import programs
from tpuprof.preflight.schedule import Work, play
from tpuprof.preflight.targets import parse_target

V5E = parse_target("v5e-4")
MS = 1_000_000_000  # ps


def test_cycles_over_the_chips_clock():
    module = programs.entry(
        "  ROOT %f = f32[8]{0} fusion(%a), kind=kLoop, calls=%f" + programs.cycles(3_000_000)
    )
    assert play(module, V5E).duration == 2 * MS
    assert play(module, parse_target("v6e-4")).duration == round(3_000_000 / 1.75e9 * 1e12)


def test_a_gather_behind_enough_work_costs_nothing():
    # 3/4 of 4 MiB over two links of 50 GB/s and two hops: 33 µs, behind 1 ms.
    schedule = play(programs.gathered(1.0), V5E)
    scatter = 16384 * 3 / 4 / 100e9 * 1e12 + 2_000_000
    assert schedule.totals[Work.COMPUTE] == 2 * MS
    assert schedule.totals[Work.COLLECTIVE] == pytest.approx(scatter, rel=1e-6)
    assert schedule.hidden[Work.COLLECTIVE] == pytest.approx(
        (4 << 20) * 0.75 / 100e9 * 1e12 + 2_000_000, rel=1e-6
    )


def test_what_is_left_of_a_gather_is_waited_for():
    schedule = play(programs.gathered(0.01), V5E)
    gather = (4 << 20) * 0.75 / 100e9 * 1e12 + 2_000_000
    scatter = 16384 * 0.75 / 100e9 * 1e12 + 2_000_000
    assert schedule.totals[Work.COLLECTIVE] == pytest.approx(gather - 0.01 * MS + scatter, rel=1e-6)
    assert schedule.hidden[Work.COLLECTIVE] == pytest.approx(0.01 * MS, rel=1e-6)


def test_each_collective_is_counted_once():
    found = play(programs.gathered(), V5E).collectives
    assert {(each.kind, each.bytes, each.group, each.role): n for each, n in found.items()} == {
        ("all-gather", 4 << 20, 4, "start"): 1,
        ("reduce-scatter", 16384, 4, "sync"): 1,
    }


@pytest.mark.parametrize(("work_ms", "exposed_ms"), [(2.0, 0.0), (0.25, 1.5), (0.0, 2.0)])
def test_host_copies_at_the_stated_link_speed(work_ms, exposed_ms):
    # 15 MB each way at 15 GB/s: 1 ms each.
    schedule = play(programs.offloaded(work_ms), V5E)
    assert schedule.offload == {"to_host": 15_000_000, "from_host": 15_000_000}
    assert schedule.totals[Work.OFFLOAD] == pytest.approx(exposed_ms * MS, abs=1)
    assert schedule.duration == pytest.approx((3 * work_ms + exposed_ms) * MS, abs=2)


@pytest.mark.parametrize("trips", [0, 1, 7, 100_000])
def test_a_loop_is_its_body_times_its_trips(trips):
    schedule = play(programs.looped(trips), V5E)
    assert schedule.duration == trips * MS
    assert schedule.totals[Work.COMPUTE] == trips * MS
    assert schedule.unknown_loops == []
    assert len(schedule.events) < 200_002


@pytest.mark.parametrize("module", [programs.gathered(0.01), programs.offloaded(0.3), programs.looped(5)])
def test_parts_sum_to_the_step_and_events_tile_it(module):
    schedule = play(module, V5E)
    assert sum(schedule.totals.values()) == schedule.duration
    leaves = [each for each in schedule.events if each.work is not Work.CONTAINER and each.duration]
    assert sum(each.duration for each in leaves) == schedule.duration
    at = 0
    for each in leaves:
        assert each.start == at
        at += each.duration


def test_what_the_compiler_does_not_price_is_named():
    module = programs.entry("  ROOT %s = f32[1024]{0:T(1024)} sort(%a), dimensions={0}")
    schedule = play(module, V5E)
    assert schedule.guessed == {"sort": 1}
    assert schedule.duration == pytest.approx(8192 / 819e9 * 1e12, abs=1)
