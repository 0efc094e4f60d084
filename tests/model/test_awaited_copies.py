"""A call with NumPy's arrays returns before they are copied: what the host waits for then is the copy."""

import pytest

from tests.builders import TraceBuilder

STEP, COUNT = 100_000, 8
COPY, COMPUTE = 70_000, 25_000


def loop(*, event="H2D Dispatch", wait="Wait for donation holds", put="train_step", computes=COMPUTE):
    """Steps of 100 ms: a call gives arrays to a pool thread, which copies them for 70 ms; then the device works."""
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("tf_XLAEigen/1")
    pool = trace.host().line("tf_XLAPjRtCpuClient/7")
    for number in range(COUNT):
        at = number * STEP
        python.event("train", at, STEP, _r=1, step_num=number)
        python.event("PjitFunction(split)", at + 10, 20)
        python.event("PjitFunction(train_step)", at + 100, 4_000)
        python.event("DevicePut", at + (200 if put == "train_step" else 4_500), 3_000)
        python.event(wait, at + 8_000, STEP - 9_000)
        if event:
            pool.event(event, at + 4_200, COPY)
        begins = at + STEP - 1_000 - computes
        pool.event("ThunkExecutor::Execute (wait for completion)", begins, computes)
        run.event("dot.1", begins, computes, hlo_op="dot.1", hlo_module="jit_train_step", program_id=1)
    return trace


def found(report):
    return next(each for each in report.findings if each.rule == "input-starved")


@pytest.mark.parametrize("wait", ["Wait for donation holds", "$array.py:310 __float__"])
def test_a_wait_for_copies_is_one_for_data(analyze, wait):
    report = analyze(loop(wait=wait))
    assert report.verdict.bound == "input"
    assert "copies of NumPy's arrays that train_step is given" in report.verdict.sentence
    assert report.breakdown["host_to_device"].ms_per_step == pytest.approx(66.2 + 3, abs=1.5)
    finding = found(report)
    assert finding.title == "The device waits 69 % of each step for NumPy's arrays that train_step is given"
    assert "jitted function copies each NumPy array" in finding.fix.text
    assert (finding.savings.low, finding.savings.high) == pytest.approx((0, 69), abs=3)


def test_arrays_that_no_call_is_given_are_data(analyze):
    assert "step for data" in found(analyze(loop(put="elsewhere"))).title


def test_a_wait_without_a_copy_is_for_the_device(analyze):
    assert analyze(loop(event="")).breakdown["host_to_device"].ms_per_step < 5


def test_a_copy_behind_the_devices_work_costs_nothing(analyze):
    report = analyze(loop(computes=90_000))
    assert report.verdict.bound == "device"
    assert report.breakdown["host_to_device"].ms_per_step < 6
