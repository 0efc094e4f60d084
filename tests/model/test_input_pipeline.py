"""Who makes batches, how long one takes, and why training waits."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.model.host.input_pipeline import WAITS_FROM
from tpuprof.render.facts import fact_lines


def trace_of(*, wait, making=None):
    """Four steps of 1 ms that wait for input; `making` is how long a background thread takes for a batch."""
    trace = TraceBuilder()
    begins = [1000 * i for i in range(4)]
    python = trace.host().line("python")
    python.repeat("train", begins, 1000, _r=1)
    python.repeat("SyncTensorsGraph", [b + 990 for b in begins], 5)
    name = "tpuprof.dataloader.next" if making is None else "get_batch_from_cpu_queue"
    python.repeat(name, begins, wait)
    if making is not None:
        trace.host().line("loader").repeat("cpu_loader.next", begins, making)
    trace.tpu(0).line("XLA Modules").repeat("f(1)", [b + wait for b in begins], 500)
    return trace


@pytest.mark.parametrize(
    ("wait", "making", "diagnosis"),
    [
        (300, None, "no_prefetch"),
        (300, 950, "slow_loader"),
        (300, 400, "shallow_prefetch"),
        (1000 * WAITS_FROM - 5, 400, "ok"),
        (1000 * WAITS_FROM + 5, 400, "shallow_prefetch"),
    ],
)
def test_diagnosis(analyze, wait, making, diagnosis):
    (row,) = analyze(trace_of(wait=wait, making=making)).input
    assert row.diagnosis == diagnosis
    assert row.prefetch == ("none" if making is None else "background")
    assert row.batch_ms == pytest.approx((making or wait) / 1000)
    assert row.wait_ms_per_step == pytest.approx(wait / 1000)
    assert row.batches_per_step == 1


def test_no_loading_event_is_no_row(analyze):
    trace = TraceBuilder()
    trace.host().line("python").repeat("train", [0, 1000], 1000, _r=1)
    assert analyze(trace).input == []


TAKES = {
    "MpDeviceLoader": ("tpuprof.dataloader.next", {"taken_from": "queue of threads"}),
    "workers": ("tpuprof.dataloader.next", {"taken_from": "queue of processes"}),
    "tf.data": ("Iterator::Root::Prefetch", {}),
}


def taking(name, facts, *, wait, cut="SyncTensorsGraph", looks=0):
    """Four steps of 1 ms that take a batch; `looks` is how long another thread waits for batches to copy."""
    trace = TraceBuilder()
    begins = [1000 * i for i in range(4)]
    python = trace.host().line("python")
    for number, begin in enumerate(begins):
        python.event("train", begin, 1000, _r=1, step_num=number)
        python.event(name, begin, wait, **facts)
        python.event(cut, begin + 990, 5)
        if looks:
            trace.host().line("copies").event("get_batch_from_cpu_queue", begin + 20, looks)
    trace.tpu(0).line("XLA Modules").repeat("f(1)", [b + wait for b in begins], 500)
    return trace


@pytest.mark.parametrize(
    ("takes", "cut", "prefetch", "late"),
    [
        ("MpDeviceLoader", "SyncTensorsGraph", "background", "unseen"),
        ("workers", "SyncTensorsGraph", "workers", "slow_workers"),
        ("tf.data", "PjitFunction(step)", "background", "unseen"),
    ],
)
@pytest.mark.parametrize("wait", [15, 300])
def test_what_a_queue_gives_is_not_made_meanwhile(analyze, takes, cut, prefetch, late, wait):
    (row,) = analyze(taking(*TAKES[takes], wait=wait, cut=cut)).input
    assert (row.prefetch, row.batch_ms) == (prefetch, None)
    assert row.diagnosis == ("ok" if wait == 15 else late)
    assert row.batches_per_step == 1


def test_a_thread_that_copies_batches_makes_none(analyze):
    report = analyze(taking(*TAKES["MpDeviceLoader"], wait=15, looks=300))
    assert report.input[0].batch_ms is None
    (said,) = [line for subject, line in fact_lines(report) if subject == "Input"]
    assert "how long a batch takes is unknown: the capture saw none made" in said


def test_a_batch_that_goes_on_after_a_steps_end_is_one(analyze):
    name, facts = TAKES["MpDeviceLoader"]
    trace = taking(name, facts, wait=15)
    for begin in range(0, 4000, 1000):
        trace.host().line("python").event(name, begin + 16, 20, **facts, goes_on=1)
    assert analyze(trace).input[0].batches_per_step == 1


def test_a_loader_that_cuts_the_graph_takes_from_a_queue(analyze):
    """Captures of older versions do not say where a batch comes from."""
    trace = taking("tpuprof.dataloader.next", {}, wait=15)
    trace.host().line("python").repeat("StepMarker", [1000 * i + 2 for i in range(4)], 10)
    (row,) = analyze(trace).input
    assert (row.prefetch, row.batch_ms, row.diagnosis) == ("background", None, "ok")


def test_a_loaders_thread_that_awaits_worker_processes_makes_none(analyze):
    trace = taking(*TAKES["MpDeviceLoader"], wait=300)
    loader = trace.host().line("loader")
    for begin in range(0, 4000, 1000):
        loader.event("cpu_loader.next", begin, 600)
        loader.event("tpuprof.dataloader.next", begin + 1, 598, taken_from="queue of processes")
    (row,) = analyze(trace).input
    assert (row.prefetch, row.batch_ms, row.diagnosis) == ("workers", None, "slow_workers")


@pytest.mark.parametrize(
    ("waits", "diagnosis"),
    [((40, 320, 140, 140), "restarted_workers"), ((40, 300, 160, 140), "slow_workers")],
)
def test_workers_that_a_loaders_thread_starts_anew_are_told(analyze, waits, diagnosis):
    """MpDeviceLoader starts them in its own thread: "start more workers" was said of a pause that each start makes."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number, wait in enumerate(waits):
        begin = 1000 * number
        python.event("train", begin, 1000, _r=1, step_num=number)
        python.event("tpuprof.dataloader.next", begin, wait, taken_from="queue of threads")
        python.event("SyncTensorsGraph", begin + 990, 5)
    loader = trace.host().line("loader")
    loader.event("tpuprof.dataloader.workers", 1050, 200)
    loader.event("tpuprof.dataloader.next", 1260, 20, taken_from="queue of processes")
    trace.tpu(0).line("XLA Modules").repeat("f(1)", [1000 * row + 400 for row in range(4)], 500)
    (row,) = analyze(trace).input
    assert (row.prefetch, row.diagnosis) == ("workers", diagnosis)


@pytest.mark.parametrize(
    ("begins", "diagnosis"), [((1000, 2000), "slow_loader"), ((1200,), "shallow_prefetch")]
)
def test_a_batch_on_its_way_as_the_capture_begins_or_ends_counts(analyze, begins, diagnosis):
    """The profiler leaves out events that begin before it, or end after it."""
    trace = TraceBuilder()
    steps = [1000 * row for row in range(4)]
    python = trace.host().line("python")
    python.repeat("train", steps, 1000, _r=1)
    python.repeat("SyncTensorsGraph", [begin + 990 for begin in steps], 5)
    python.repeat("get_batch_from_cpu_queue", steps, 300)
    trace.host().line("loader").repeat("cpu_loader.next", begins, 1000)
    trace.tpu(0).line("XLA Modules").repeat("f(1)", [begin + 300 for begin in steps], 500)
    assert analyze(trace).input[0].diagnosis == diagnosis
