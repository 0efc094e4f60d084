"""Outlier steps, drift and the profiler's own effect."""

import io
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.model.intervals import Spans
from tpuprof.model.run_ahead import RUN_UP_FROM_STEPS, _queue
from tpuprof.model.steadiness import (
    DRIFT_FROM,
    MAX_OUTLIERS,
    MIN_STEPS,
    OUTLIER_FACTOR,
    find_drift,
    find_outliers,
    profiler_effect,
)
from tpuprof.model.steps.table import MEDIUM, Steps, StepSource
from tpuprof.render.facts import _outlier
from tpuprof.render.text import render
from tpuprof.report.sections import OutlierRow

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


def test_a_step_that_waits_for_earlier_work_is_no_slow_one():
    wall = walls(10, 10, 10, 10, 10, 82)
    parts = {
        "compute": walls(9, 9, 9, 9, 9, 61),
        "device_to_host_sync": walls(0, 0, 0, 0, 0, 3),
        "host:python": walls(1, 1, 1, 1, 1, 18),
    }
    waited = walls(0, 0, 0, 0, 0, 50)
    (found,), _ = find_outliers(wall, parts, waited)
    assert (found.earlier_ps, [name for name, _ in found.reasons]) == (50 * MS, ["host:python"])
    (slow,), _ = find_outliers(wall, parts, waited // 2)  # its own work took longer
    assert (slow.earlier_ps, slow.reasons[0][0]) == (0, "compute")


def calls_of_steps(host_ms, device_ms, reads=(), unseen=(), late_ms=0, gap_ms=0):
    """A JAX host whose steps take `host_ms`, and a device that works `device_ms` for each, or as listed; steps that
    read wait.

    Programs of `unseen` steps leave ops alone, and no event of their own. After a read the device begins `late_ms` late.
    Of its work for a step it idles `gap_ms` at first.
    """
    trace = TraceBuilder()
    python, device = trace.host().line("python"), trace.host().line("tf_XLAPjRtCpuClient/2")
    now = done = 0
    works = device_ms if isinstance(device_ms, list) else [device_ms] * len(host_ms)
    for number, (host, work) in enumerate(zip(host_ms, works, strict=True)):
        begin = now
        python.event("PjitFunction(train)", now + 10, 50)
        done = max(done, now + 60) + 1000 * work
        works_for = 1000 * (work - gap_ms)
        if number not in unseen:
            device.event("ThunkExecutor::Execute (wait for completion)", done - works_for, works_for - 1)
        device.event(
            "dot.1",
            done - works_for,
            works_for - 1,
            hlo_op="dot.1",
            hlo_module="g",
            program_id=1,
        )
        now += 1000 * host
        if number in reads:
            python.event("PjRtBuffer::Await", now, max(done - now, 0) + 1)
            now = max(now, done + 10)
            done = now + 1000 * late_ms
        python.event("train_step", begin, now - begin, _r=1, step_num=number)
    return trace


def test_reads_of_a_host_that_runs_ahead_are_told_as_such(tmp_path):
    trace = calls_of_steps([6] * 30, 10, reads=(9, 19, 29))
    found = analyze_run(trace.write(tmp_path / "host.xplane.pb")).steadiness
    assert [each.step for each in found.outliers] == [9, 19, 29]
    assert all(each.earlier_ms > 30 and "compute" not in each.reasons for each in found.outliers)


def test_a_program_that_ends_just_behind_its_step_is_no_host_that_runs_ahead(tmp_path):
    """Each program ends where the next step has begun, as behind a closure that reads; one takes longer."""
    hosts, works = [10] * 20, [10] * 20
    hosts[9], works[9] = 34, 33
    found = analyze_run(calls_of_steps(hosts, works).write(tmp_path / "host.xplane.pb")).steadiness
    (slow,) = found.outliers
    assert (slow.step, slow.earlier_ms, *slow.reasons) == (9, 0.0, "compute")


def test_a_queue_that_fills_is_no_drift(tmp_path):
    # The host is ten programs ahead, and waits for one in each step from then on.
    hosts = [2] * 12 + [10] * 12
    ahead = analyze_run(calls_of_steps(hosts, 10).write(tmp_path / "a.xplane.pb")).steadiness
    slower = analyze_run(calls_of_steps(hosts, 1).write(tmp_path / "b.xplane.pb")).steadiness
    assert ahead.drift_ms is None
    assert slower.drift_ms == pytest.approx(8, abs=8)  # the host itself became slower


def test_the_text_says_for_what_a_burst_waits():
    row = OutlierRow(7, "h", 0, 82.0, 71.0, {"host:python": 14.0}, 62.0)
    text = _outlier(row)
    assert "waits there for 62.0 ms of earlier steps' work, host:python 14.0 ms more" in text
    assert _outlier(replace(row, earlier_ms=0.0)).endswith("over the median: host:python 14.0 ms more")


@pytest.mark.parametrize("deep", [RUN_UP_FROM_STEPS - 2, 12])
def test_steps_that_only_fill_the_queue_are_no_steps(tmp_path, deep):
    # The queue takes so many programs, and one more when one has ended.
    report = analyze_run(calls_of_steps([1] * deep + [10] * 30, 10).write(tmp_path / "host.xplane.pb"))
    (phase,) = (each for each in report.phases if each.name == "run-up")
    assert report.steps.count == pytest.approx(30, abs=2)
    assert report.run_summary.mean_step_ms == pytest.approx(10, rel=0.02)
    assert phase.duration_ms == pytest.approx(deep, abs=2)


@pytest.mark.parametrize("full", [9, 30])
def test_two_steps_that_fill_the_queue_are_left_out(tmp_path, full):
    """A mean of 25.4 ms was said of steps of 30 ms, of which the device works all the time."""
    report = analyze_run(calls_of_steps([1] * 2 + [10] * full, 10).write(tmp_path / "host.xplane.pb"))
    assert report.steps.count == pytest.approx(full, abs=1)
    assert report.run_summary.mean_step_ms == pytest.approx(10, rel=0.05)


def test_so_it_is_where_most_captured_steps_fill_the_queue(tmp_path):
    """Fewer programs end in most steps then: that is no step of half a program."""
    report = analyze_run(calls_of_steps([1] * 27 + [10] * 14, 10).write(tmp_path / "host.xplane.pb"))
    assert [each.name for each in report.phases] == ["run-up"]
    assert report.steps.count == pytest.approx(14, abs=2)
    assert report.run_summary.mean_step_ms == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize(("gap", "steps"), [(4, 10), (6, 22)])
def test_a_queue_is_full_though_the_device_idles_for_a_part_of_each_step(tmp_path, gap, steps):
    """XLA's CPU client makes the memory of large results between two programs; below half it works, nothing is sure."""
    trace = calls_of_steps([1] * 12 + [10] * 10, 10, gap_ms=gap)
    assert analyze_run(trace.write(tmp_path / "host.xplane.pb")).steps.count == pytest.approx(steps, abs=1)


@pytest.mark.parametrize(("full", "host_ms", "steps"), [(3, 100, 3), (1, 100, 28), (3, 4, 30)])
def test_two_steps_of_a_full_queue_stand_for_all_where_they_take_far_longer(tmp_path, full, host_ms, steps):
    """31 of 34 captured steps of a model only filled the queue: its steps of 119 ms were 17 ms long."""
    trace = calls_of_steps([1] * 27 + [host_ms] * full, host_ms)
    report = analyze_run(trace.write(tmp_path / "host.xplane.pb"))
    assert report.steps.count == pytest.approx(steps, abs=1)
    assert [each.name for each in report.phases] == (["run-up"] if steps == 3 else [])


def test_a_wait_for_all_near_the_end_is_no_full_queue(tmp_path):
    trace = calls_of_steps([1] * 27 + [1, 100, 100], 100, reads=(28,))
    report = analyze_run(trace.write(tmp_path / "host.xplane.pb"))
    assert report.steps.count >= 28


def test_bursts_have_no_run_up(tmp_path):
    trace = calls_of_steps([1] * 60, 10, reads=range(9, 60, 10))
    assert analyze_run(trace.write(tmp_path / "host.xplane.pb")).steps.count == 60


@pytest.mark.parametrize(("host", "against"), [(1, "vs mean"), (10, "vs median")])
def test_slow_steps_of_a_host_that_runs_ahead_are_compared_with_the_mean(tmp_path, host, against):
    trace = calls_of_steps([host] * 60, 10, reads=range(9, 60, 10))
    text = io.StringIO()
    render(analyze_run(trace.write(tmp_path / "host.xplane.pb")), Console(file=text, width=120))
    assert against in text.getvalue()


@pytest.mark.parametrize(("more", "count"), [(RUN_UP_FROM_STEPS - 1, 30 + RUN_UP_FROM_STEPS - 1), (8, 30)])
def test_steps_behind_the_last_wait_have_their_work_behind_the_capture(tmp_path, more, count):
    trace = calls_of_steps([1] * (30 + more), 10, reads=(9, 19, 29))
    report = analyze_run(trace.write(tmp_path / "host.xplane.pb"))
    assert report.steps.count == count
    if count == 30:
        assert report.run_summary.mean_step_ms == pytest.approx(10, rel=0.02)
        assert [each.name for each in report.phases] == ["run-ahead"]


def test_so_it_is_where_a_capture_holds_one_wait_and_the_device_begins_late(tmp_path):
    """A program ended in the step before the wait; the next ones begin after the last step, as those that are long do."""
    trace = calls_of_steps([1] * 8 + [3] + [1] * 9, 10, reads=(9,), late_ms=8)
    report = analyze_run(trace.write(tmp_path / "host.xplane.pb"))
    assert report.steps.count == 10
    assert [each.name for each in report.phases] == ["run-ahead"]


@pytest.mark.parametrize(
    ("hosts", "works", "phases"),
    [
        # A wait that came in the graph cut so far comes behind the last step.
        ([10] * 7 + [4], [8] * 8, ["run-ahead"]),
        # A host that reads the loss of the step before finds it read when recording begins.
        ([3] + [10] * 7, [10] * 8, ["run-up"]),
        ([3] + [10] * 7 + [4], [10] * 9, ["run-up", "run-ahead"]),
        # Less work, hardly shorter, and no more steps than show what is usual.
        ([10] * 7 + [4], [8] * 7 + [2], []),
        ([10] * 7 + [8], [8] * 8, []),
        ([10] * 4 + [4], [8] * 5, []),
        # One step waits for two programs: the last has its wait there.
        ([3] + [10] * 5 + [18, 3], [10] * 8, ["run-up"]),
        # The device needs 1 ms of the 6 that the last step is shorter: it waits for something else.
        ([10] * 7 + [4], [1] * 7 + [30], []),
    ],
)
def test_a_step_at_an_end_that_lacks_its_wait_is_left_out(tmp_path, hosts, works, phases):
    """Eight steps of 122 ms of which the last took 74 ms, and the ops ran seven times: all were too short by a tenth."""
    report = analyze_run(calls_of_steps(hosts, works).write(tmp_path / "host.xplane.pb"))
    assert [each.name for each in report.phases] == phases
    assert report.steps.count == len(hosts) - len(phases)
    if phases:
        assert report.run_summary.mean_step_ms == pytest.approx(10, rel=0.02)


def test_short_steps_whose_programs_are_done_before_the_capture_stay(tmp_path):
    """More programs end than are handed over: a small one before the capture ends in the first step, which is short."""
    trace = calls_of_steps([5] + [10] * 7, [4] + [8] * 7)
    device = trace.host().line("tf_XLAPjRtCpuClient/2")
    device.event("ThunkExecutor::Execute (wait for completion)", 0, 30)
    device.event("dot.1", 0, 30, hlo_op="dot.1", hlo_module="g", program_id=1)
    report = analyze_run(trace.write(tmp_path / "host.xplane.pb"))
    assert (report.steps.count, report.phases) == (8, [])


def test_small_calls_in_some_steps_do_not_lengthen_the_queue(tmp_path):
    """Every fifth step calls something whose program leaves no event."""
    trace = calls_of_steps([10] * 60, 9)
    trace.host().line("python").repeat(
        "PjitFunction(squeeze)", [10_000 * at + 5000 for at in range(0, 60, 5)], 20
    )
    report = analyze_run(trace.write(tmp_path / "host.xplane.pb"))
    assert report.steps.count == 60
    assert not report.phases


def test_programs_that_leave_no_event_in_one_step_of_ten_are_no_growing_queue(tmp_path):
    """The device is busy where the last step ends, and yet no step has its work behind the capture."""
    trace = calls_of_steps([10] * 80, 9.5, unseen=range(9, 80, 10))
    assert analyze_run(trace.write(tmp_path / "host.xplane.pb")).steps.count == 80


def test_a_device_that_rests_at_the_end_has_no_work_left(tmp_path):
    trace = calls_of_steps([10] * 40, 5, unseen=range(30, 40))
    assert analyze_run(trace.write(tmp_path / "host.xplane.pb")).steps.count == 40


@pytest.mark.parametrize("missing", [0, 50])
def test_several_programs_of_a_step_that_end_in_few_of_them_are_no_longer_queue(missing):
    """Three per step, and a wait once per epoch: 16 steps of 82 stayed, and "mean 16.3 ms" was said of 49.

    Where far fewer end than were handed over, a call is not known to be a program.
    """
    count, mark = 60, 100
    start = np.arange(count) * mark
    steps = Steps(StepSource.CALLS, MEDIUM, np.arange(count), start, start + mark)
    given = np.sort(np.concatenate([start + at for at in (10, 20, 30)]))
    per_step = [3] * 5 + [1, 2, 0] * 10 + [0] * 15 + [90] + [1] * 9
    per_step[-10] += 3 * count - sum(per_step) - missing
    done = np.concatenate(
        [at + 1 + np.arange(n) / (n + 1) * 90 for at, n in zip(start, per_step, strict=True)]
    )
    device = SimpleNamespace(programs=SimpleNamespace(end=done), busy=SimpleNamespace(total=1))
    found = _queue(steps, [device], Spans(given, given + 1))
    assert (found.length.min() > -1) is not bool(missing)
