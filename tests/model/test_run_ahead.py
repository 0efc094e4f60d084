"""A host that runs ahead of the CPU device: programs that are handed over and do not run within the recording."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run

STEPS = 10


def run_ahead(ran):
    """Ten steps of 1 ms that trace for 600 us each; `ran` of the ten programs begin while the profiler is on."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    client, device = trace.host().line("tf_pytorchxla/1"), trace.host().line("tf_XLAPjRtCpuClient/2")
    for number in range(STEPS):
        begin = 1000 * number
        python.event("train_step", begin, 1000, _r=1, step_num=number)
        python.event("SyncTensorsGraph", begin, 600)
        client.event("PjRtCpuExecutable::ExecuteHelper", begin + 610, 20)
        if number < ran:
            device.event("ThunkExecutor::Execute (wait for completion)", begin + 700, 200)
    return trace


@pytest.mark.parametrize(
    ("ran", "word"), [(0, "undecided"), (7, "undecided"), (8, "tracing"), (10, "tracing")]
)
def test_a_device_that_runs_fewer_programs_than_it_gets_is_behind(tmp_path, ran, word):
    report = analyze_run(run_ahead(ran).write(tmp_path / "host.xplane.pb"))
    assert report.verdict.bound == word
    tracing = next(each for each in report.findings if each.rule == "tracing-bound")
    if word == "undecided":
        begun = f"{ran} of them" if ran else "none of them"
        assert f"handed 10 programs over, and {begun} began" in report.verdict.sentence
        assert tracing.status == "unavailable"
        assert {each.bound for each in report.steps.per_step} == {"undecided"}
    else:
        assert tracing.status == "failed"


def test_a_trace_without_such_events_says_nothing_of_a_queue(tmp_path):
    trace = TraceBuilder()
    for number in range(STEPS):
        python = trace.host().line("python")
        python.event("train_step", 1000 * number, 1000, _r=1, step_num=number)
        python.event("SyncTensorsGraph", 1000 * number, 600)
    report = analyze_run(trace.write(tmp_path / "host.xplane.pb"))
    assert "handed" not in report.verdict.sentence
