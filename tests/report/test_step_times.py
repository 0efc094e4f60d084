"""What is said of steps whose host runs ahead of its device."""

from types import SimpleNamespace

import pytest

from tpuprof.parts import ELSEWHERE
from tpuprof.render.facts import _outliers
from tpuprof.report.sections import RunSummary
from tpuprof.report.step_times import AHEAD_BELOW, APART_FROM, runs_ahead, step_times, step_to_compare


def report(median, mean=10.0, busy=1.0, verdict=("sync", 1.0), said=""):
    outlier = SimpleNamespace(
        step=49, wall_ms=280.0, excess_ms=276.0, reasons={"compute": 270.0}, earlier_ms=0.0
    )
    return SimpleNamespace(
        steps=SimpleNamespace(median_ms=median, p95_ms=2 * median),
        run_summary=RunSummary(busy, mean),
        verdict=SimpleNamespace(bound=verdict[0], share=verdict[1], sentence=said),
        steadiness=SimpleNamespace(outliers=[outlier]),
    )


@pytest.mark.parametrize(
    ("median", "busy", "ahead"),
    [
        (10 * AHEAD_BELOW - 0.1, 1.0, True),
        (10 * AHEAD_BELOW + 0.1, 1.0, False),
        # The device rests: short steps are those in which something else is missing.
        (10 * AHEAD_BELOW - 0.1, 0.5, False),
        (10 * AHEAD_BELOW - 0.1, None, False),
    ],
)
def test_from_when_on_the_host_is_ahead(median, busy, ahead):
    assert runs_ahead(report(median, busy=busy)) is ahead


@pytest.mark.parametrize(
    ("verdict", "ahead"), [(("device", 0.9), True), (("device", 0.8), False), (("sync", 0.9), False)]
)
def test_a_device_that_the_trace_does_not_show_works_as_long_as_the_verdict_says(verdict, ahead):
    assert runs_ahead(report(10 * AHEAD_BELOW * 0.85, busy=None, verdict=verdict)) is ahead


@pytest.mark.parametrize(
    ("said", "ahead"), [(f"Dispatch-bound: {ELSEWHERE} for it.", True), ("It calls ops.", False)]
)
def test_so_does_another_thread_that_hands_programs_over(said, ahead):
    """A compiled TorchTPU model with 90 ops beside it: steps of 30 ms were "median 4.76 ms"."""
    assert runs_ahead(report(3.4, busy=None, verdict=("dispatch", 0.4), said=said)) is ahead


def test_what_slow_steps_are_compared_with():
    assert step_to_compare(report(9.0)) == ("median", 9.0)
    assert step_to_compare(report(2.0)) == ("mean", 10.0)


def test_the_mean_counts_where_it_is():
    assert step_times(report(9.5)) == "median 9.50 ms, p95 19.0 ms"
    assert step_times(report(2.0)).startswith(
        "mean 10.0 ms (the host runs ahead of the device: half of the steps end"
    )


@pytest.mark.parametrize(
    ("mean", "said"),
    [
        (10.0 * (1 + APART_FROM), "median 10.0 ms, mean 11.0 ms, p95 20.0 ms"),
        (10.0 * (1 - APART_FROM), "median 10.0 ms, mean 9.00 ms, p95 20.0 ms"),
        (10.9, "median 10.0 ms, p95 20.0 ms"),
        (None, "median 10.0 ms, p95 20.0 ms"),
    ],
)
def test_a_mean_that_lies_apart_is_said_as_well(mean, said):
    """Steps of 72 and 420 ms in turn: "median 308 ms" was all that was said of 261 ms per step."""
    assert step_times(report(10.0, mean=mean, busy=0.5)) == said


def test_a_step_that_waits_for_others_computes_no_more_than_they_do():
    assert _outliers(report(9.0)) == ["step 49 took 280 ms, 276 ms over the median: compute 270 ms more"]
    assert _outliers(report(2.0)) == [
        "step 49 took 280 ms: the host runs ahead of the device, and waits there for the work of the steps before"
    ]
