"""A call with NumPy's arrays returns before they are copied: what the host waits for then is the copy."""

from dataclasses import replace

import pytest

from tests.builders import TraceBuilder
from tests.rules.given import given, steps
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.input.input_starved.rule import BESIDE_FROM
from tpuprof.rules.pricing import BESIDE_IT
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of

STEP, COUNT = 100_000, 8
COPY, COMPUTE = 70_000, 25_000


def threads():
    """A trace of marked steps, and its lines: the training thread, the one that computes, and one of the client's."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(COUNT):
        python.event("train", number * STEP, STEP, _r=1, step_num=number)
    return trace, python, trace.host().line("tf_XLAEigen/1"), trace.host().line("tf_XLAPjRtCpuClient/7")


def loop(
    *,
    event="H2D Dispatch",
    wait="Wait for donation holds",
    put="train_step",
    computes=COMPUTE,
    waits_from=8_000,
):
    """Steps of 100 ms: a call gives arrays to a pool thread, which copies them for 70 ms; then the device works."""
    trace, python, run, pool = threads()
    for number in range(COUNT):
        at = number * STEP
        python.event("PjitFunction(split)", at + 10, 20)
        python.event("PjitFunction(train_step)", at + 100, 4_000)
        python.event("DevicePut", at + (200 if put == "train_step" else 4_500), 3_000)
        python.event(wait, at + waits_from, STEP - 1_000 - waits_from)
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


def inline(*, event="H2D Dispatch"):
    """A small program that the call runs itself waits for the one before, whose argument is copied for 70 ms."""
    trace = loop(event=event, wait="PjitFunction(_unstack)", waits_from=5_000)
    python = trace.host().line("python")
    for number in range(COUNT):
        python.event("PjRtCpuExecutable::ExecuteHelper", number * STEP + 5_100, STEP - 6_200)
    return trace


def test_handing_over_a_small_program_waits_for_the_copies_before_it(analyze):
    """A data set of 20 MB was an argument of each step: "the host hands over programs already built", and no fix."""
    report = analyze(inline())
    assert report.verdict.bound == "input"
    assert report.breakdown["host_to_device"].ms_per_step == pytest.approx(69.1 + 3, abs=1.5)
    assert found(report).status == "failed"


def test_handing_over_without_a_copy_is_handing_over(analyze):
    report = analyze(inline(event=""))
    assert report.verdict.bound == "dispatch"
    assert report.breakdown["host_to_device"].ms_per_step < 5


@pytest.mark.parametrize(
    ("call", "said"), [("train_step(p, x)", ", at "), ("key, sub", "; the host waits for them at ")]
)
def test_the_line_that_waits_need_not_be_the_call_that_is_given_the_arrays(call, said):
    row = HostStackRow("host_to_device", ["<module> (/u/t.py:21)"], call, "/u/t.py:21", call, 40.0, 0.0)
    signals = given(
        steps=steps(host_to_device=40.0), copied_for="train_step", copied_again=0.0, stacks_if_sampled=[row]
    )
    title = outcome_of(find_rule("input-starved"), signals).title
    assert title.endswith(f"NumPy's arrays that train_step is given{said}/u/t.py:21 ({call})")


@pytest.mark.parametrize(
    ("given_to", "said"),
    [
        ("update", " that update is given at /u/t.py:79"),
        ("up", " that up is given"),
        ("svi", " that svi is given"),
    ],
)
def test_the_call_that_is_given_the_arrays_is_named_by_any_sample_of_it(given_to, said):
    """Copies hold Python's lock, so that samples of them are few: a table of 154 MB was given in each call, no line was said."""
    row = HostStackRow(
        "dispatch", ["<module> (/u/t.py:79)"], "update(s, x)", "/u/t.py:79", "update(s, x)", 0.3, 0.0
    )
    other = replace(row, source="/u/t.py:80", user_call="state, loss", samples=20)
    signals = given(
        steps=steps(host_to_device=40.0),
        copied_for=given_to,
        copied_again=0.0,
        stacks_if_sampled=[row, other],
    )
    found = outcome_of(find_rule("input-starved"), signals)
    assert found.title.endswith(f"for NumPy's arrays{said}")
    lines = [each.source for each in found.evidence if each.text == f"calls {given_to}"]
    assert lines == (["/u/t.py:79"] if "at /u" in said else [])


def beside(copy, event="H2D Dispatch"):
    """Steps of 100 ms of torch_xla: `.to(device)` takes 20 ms, and the client goes on copying beside the host's work."""
    trace, python, run, pool = threads()
    for number in range(COUNT):
        at = number * STEP
        python.event(
            "tpuprof.upload", at + 100, 20_000, tpuprof="upload", call="to", source="t.py:31", again=1
        )
        python.event("SyncTensorsGraph", at + 80_000, 5_000)
        python.event("StepMarker", at + 80_000, 5_000)
        pool.event(event, at + 20_200, copy)
        pool.event("ThunkExecutor::Execute (wait for completion)", at + 85_000, 10_000)
        run.event("dot.1", at + 85_000, 10_000, hlo_op="dot.1", hlo_module="SyncTensorsGraph.1", program_id=1)
    return trace


@pytest.mark.parametrize(
    ("copy", "high"),
    [(50_000, 70), (20_000 * (BESIDE_FROM - 1) - 300, 20), (20_000 * (BESIDE_FROM - 1) + 300, 24)],
)
def test_a_copy_that_goes_on_in_the_runtime_may_be_saved_too(analyze, copy, high):
    """61 MB per step took 23 ms in `.to(device)` and 53 more in a thread: priced 22 to 23 ms, and 61 were saved."""
    finding = found(analyze(beside(copy)))
    assert finding.savings.low == pytest.approx(20, abs=1.5)
    assert finding.savings.high == pytest.approx(high, abs=1.5)
    assert (BESIDE_IT in finding.savings.note) is (high > 20)
