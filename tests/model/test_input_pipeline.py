"""Who makes batches, how long one takes, and why training waits."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.model.host.input_pipeline import WAITS_FROM


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
