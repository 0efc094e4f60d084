"""Hosts of one run that are unlike: without a device in the trace, with another program, with devices that idle."""

import pytest

from tests.builders import TraceBuilder
from tests.model.test_hosts import host

STEPS, LENGTH = 5, 1000


def plain(*, busy=LENGTH, program="f(1)", device=True):
    trace = TraceBuilder()
    for step in range(STEPS):
        python = trace.host().line("python")
        python.event("train", step * LENGTH, LENGTH, _r=1, step_num=step)
        if device:
            trace.tpu(0).line("XLA Modules").event(program, step * LENGTH, busy)
            trace.tpu(0).line("XLA Ops").event("fusion.1", step * LENGTH, busy)
    return trace


def test_steps_of_a_host_without_a_device_are_no_time_in_which_devices_idle(analyze):
    report = analyze(plain(), plain(device=False), plain())
    assert report.run_summary.device_busy_share == pytest.approx(1.0)
    assert report.verdict.bound == "device"
    assert "host1: no device activity in the trace: its steps are in no figure of the run" in report.warnings


def test_where_no_host_shows_a_device_all_steps_count(analyze):
    report = analyze(plain(device=False), plain(device=False))
    assert report.steps.count == STEPS
    assert "no device plane" in report.verdict.sentence


def test_hosts_of_different_programs_are_named(analyze):
    report = analyze(plain(), plain(program="g(2)"), plain())
    assert (
        "hosts run different programs: f on host0, host2; g on host1. Figures are the mean of all hosts"
        in report.warnings
    )


@pytest.mark.parametrize(("busy", "told"), [(890, True), (950, False)])
def test_hosts_whose_devices_idle_more_are_named(analyze, busy, told):
    report = analyze(plain(), plain(busy=busy))
    assert any("those of host1 for 89 % of the steps' time" in each for each in report.warnings) is told


def test_a_wait_for_a_late_host_is_not_called_communication(analyze):
    report = analyze(host((0, 400)), host((400, 400)), host((0, 400)))
    assert report.verdict.bound == "collective"
    assert (
        "73 % of that is a wait for host1, which comes last, and no communication." in report.verdict.sentence
    )
    even = analyze(host((0, 0)), host((0, 0)))
    assert "comes last" not in even.verdict.sentence
