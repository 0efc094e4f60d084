"""Idle time without a known cause: the event of the training thread that holds most of it is named."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.model.host.unnamed import MOST_FROM_SHARE
from tpuprof.parts import NOT_NAMED

STEPS, LENGTH, BUSY = 6, 1000, 600


def loop(inside, *, busy=BUSY):
    """JAX steps of 1 ms in which the device idles; `inside` are events of the host in that time, from first to last."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for step in range(STEPS):
        begin = step * LENGTH
        python.event("train", begin, LENGTH, _r=1, step_num=step)
        python.event("PjitFunction(f)", begin + 1, 8)
        trace.tpu(0).line("XLA Modules").event("jit_f(1)", begin, busy)
        for name, length in inside:
            python.event(name, begin + busy, length)
    return trace


def test_an_event_that_no_vocabulary_has_is_named(analyze):
    report = analyze(loop([("Vendor::Flush", 390)]))
    assert report.verdict.bound == "unknown"
    assert (
        "(400 µs of 1.00 ms), 98 % of which is inside 'Vendor::Flush' on the training thread"
        in report.verdict.sentence
    )


def test_so_it_is_beside_a_device_that_is_mostly_busy(analyze):
    report = analyze(loop([("Vendor::Flush", 190)], busy=800))
    assert report.verdict.bound == "device"
    assert "is inside 'Vendor::Flush'" in report.verdict.sentence
    assert NOT_NAMED not in report.verdict.sentence


def test_of_events_inside_one_another_the_inner_one_is_named(analyze):
    assert "'Vendor::Wait'" in analyze(loop([("Vendor::Flush", 390), ("Vendor::Wait", 380)])).verdict.sentence


@pytest.mark.parametrize(("share", "named"), [(0.05, True), (-0.05, False)])
def test_an_event_is_named_where_it_holds_most(analyze, share, named):
    length = (LENGTH - BUSY) * (MOST_FROM_SHARE + share)
    assert ("Vendor::Flush" in analyze(loop([("Vendor::Flush", length)])).verdict.sentence) is named


def test_so_it_is_where_the_host_may_trace(analyze):
    """torch_xla: 48 of 50 ms were in one event, and "nothing in the trace tells these two apart" was all that was said."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for step in range(STEPS):
        begin = step * LENGTH
        python.event("train", begin, LENGTH, _r=1, step_num=step)
        python.event("save_all", begin, LENGTH - BUSY - 20)
        python.event("SyncTensorsGraph", begin + LENGTH - BUSY - 10, 8)
        trace.tpu(0).line("XLA Modules").event("g(1)", begin + LENGTH - BUSY, BUSY)
    said = analyze(trace).verdict.sentence
    assert "tells these two apart. 97 % of that time is inside 'save_all' on the training thread" in said


def test_what_is_around_the_steps_says_nothing(analyze):
    trace = loop([])
    trace.host().line("python").event("everything", 0, STEPS * LENGTH)
    assert "is inside" not in analyze(trace).verdict.sentence
