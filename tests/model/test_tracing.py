"""What tracing is made of: phases, annotations, scans traced again."""

import pytest

from tests.builders import TraceBuilder


def trace_of(*, scan=0, autograd=False):
    """Two steps of 1 ms: 600 us Python, of which 100 us IR walk; the device works from 500 to 700."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    begins = [0, 1000]
    python.repeat("train", begins, 1000, _r=1)
    for begin in begins:
        python.event("forward", begin + 50, 300, tpuprof="annotation", traced_ops=500)
        for call in range(scan):
            python.event("aot_forward", begin + 60 + 50 * call, 40)
        python.event("SyncTensorsGraph", begin + 450, 300)
        python.event("RunPostOrder", begin + 460, 100)
        python.event("DeviceBarrier", begin + 750, 250)
        if autograd:
            trace.host().line("pt_autograd_0").event(
                "Decoder", begin + 360, 80, tpuprof="module_backward", traced_ops=9
            )
    trace.sampled(0, 2000, ops=2000)
    trace.tpu(0).line("XLA Modules").repeat("f(1)", [b + 500 for b in begins], 200)
    return trace


def phases(report):
    return {row.name: (row.exposed_ms_per_step, row.hidden_ms_per_step) for row in report.tracing.phases}


def test_phases_sum_to_all_tracing_exposed_and_hidden(analyze):
    report = analyze(trace_of())
    found = phases(report)
    assert found["ir_walk_and_hash"] == (pytest.approx(0.1), pytest.approx(0.2))
    assert found["python_and_dispatch"] == (pytest.approx(0.45), pytest.approx(0.0))
    assert sum(exposed for exposed, _ in found.values()) == pytest.approx(
        report.breakdown["tracing"].ms_per_step
    )
    assert sum(hidden for _, hidden in found.values()) == pytest.approx(report.tracing_hidden_ms_per_step)


def test_the_breakdown_and_the_phases_have_the_same_tracing_where_samples_overlap(analyze):
    """Of one step the breakdown gave 5.08 ms to tracing, and the phases 5.32: a sample's interval lay in another's."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    python.event("train_step", 0, 40_000, _r=1, step_num=0)
    python.event("StepMarker", 39_990, 10)
    words = {"call": "", "source": "/u/train.py:7", "user_call": ""}
    trace.sampled(0, 20_000, cpu=20_000, stack=1, frames="main (/u/train.py:7)", **words)
    adam = "main (/u/train.py:7);step (/v/lib/python3.11/site-packages/torch/optim/adam.py:9)"
    trace.sampled(14_000, 16_000, ops=300, cpu=16_000, stack=2, frames=adam, **words)
    report = analyze(trace)
    shown = report.breakdown["tracing"].ms_per_step
    assert shown > 5
    assert sum(exposed for exposed, _ in phases(report).values()) == pytest.approx(shown)


def test_the_step_without_exposed_tracing(analyze):
    report = analyze(trace_of())
    assert report.tracing.step_ms_if_free == pytest.approx(1.0 - report.breakdown["tracing"].ms_per_step)


def test_what_autograd_does_is_its_own_phase(analyze):
    found = phases(analyze(trace_of(autograd=True)))
    assert found["autograd"] == (pytest.approx(0.08), 0.0)


def test_annotations_say_where_tracing_happens(analyze):
    rows = {row.name: row for row in analyze(trace_of()).tracing.annotations}
    assert rows["forward"].kind == "annotation"
    assert rows["forward"].exposed_ms_per_step == pytest.approx(0.3)


@pytest.mark.parametrize(("calls", "known"), [(0, 0), (1, None), (3, None)])
def test_that_a_scan_runs_does_not_tell_whether_it_is_traced_again(analyze, calls, known):
    report = analyze(trace_of(scan=calls))
    assert report.tracing.scan_retraces_per_step == known
    assert ("scan_retrace" in phases(report)) == (calls > 0)


@pytest.mark.parametrize(("took", "again"), [(5000, 1), (4990, 0)])
def test_a_scan_that_looks_for_its_body_for_long_traces_it_again(analyze, took, again):
    """It finds a traced one within 1.5 ms, and needs 70 ms for one of two ops (torch_xla 2.9, two slow cores)."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for begin in range(0, 60_000, 20_000):
        python.event("train", begin, 20_000, _r=1)
        python.event("tpuprof.scan_trace", begin + 100, took)
        python.event("aot_forward", begin + 6000, 1000)
        python.event("SyncTensorsGraph", begin + 8000, 300)
        python.event("DeviceBarrier", begin + 9000, 250)
    trace.tpu(0).line("XLA Modules").repeat("f(1)", [8000, 28_000, 48_000], 200)
    assert analyze(trace).tracing.scan_retraces_per_step == again


def test_a_trace_without_a_training_thread_claims_nothing(analyze):
    trace = TraceBuilder()
    trace.tpu(0).line("XLA Modules").repeat("f(1)", [0, 100, 200, 300], 90)
    assert (analyze(trace).tracing.phases, analyze(trace).tracing.scan_retraces_per_step) == ([], None)
