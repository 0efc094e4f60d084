"""Eager mode: by torch_xla's own metric, or by programs that autograd's threads hand over."""

import json

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.model.host.eager_mode import EAGER_FROM_OPS, FROM_AUTOGRAD, TENSORS_PER_OP

BEGINS = [1000 * number for number in range(4)]


def trace_of(forward=12, backward=8, thread="pt_autograd_0"):
    """Steps of 1000 us in which the training thread and another one hand so many programs over."""
    trace = TraceBuilder()
    python, behind = trace.host().line("python"), trace.host().line(thread)
    for begin in BEGINS:
        python.event("train", begin, 1000, _r=1)
        for line, first, count in ((python, begin, forward), (behind, begin + 500, backward)):
            for number in range(count):
                line.event("SyncTensorsGraph", first + 40 * number, 30)
                line.event("ScheduleSyncTensorsGraph", first + 40 * number + 10, 10)
    trace.tpu(0).line("XLA Modules").repeat("f(1)", [begin + 990 for begin in BEGINS], 10)
    return trace


def noted(count, **counters):
    """Telemetry of a captured step in which torch_xla ran so many ops eagerly."""
    row = {"step": 0, "captured": True, "compiles": [], "counters": counters}
    return json.dumps({**row, "metrics": {"LazyTracing": [5, 10.0], "EagerOpExecuteTime": [count, 10.0]}})


def test_autograd_that_runs_programs_shows_eager_mode(analyze):
    report = analyze(trace_of())
    assert (
        "Eager mode is on: each op is a program of its own, 20 programs per step." in report.verdict.sentence
    )
    found = next(each for each in report.findings if each.status == "failed")
    assert (found.rule, found.confidence) == ("eager-mode", "medium")
    assert found.title.endswith("20 programs per step")


@pytest.mark.parametrize(
    ("backward", "thread"), [(0, "pt_autograd_0"), (FROM_AUTOGRAD - 1, "pt_autograd_0"), (8, "worker")]
)
def test_many_cuts_alone_are_no_eager_mode(read, backward, thread):
    assert read(trace_of(backward=backward, thread=thread)).eager_ops is None


@pytest.mark.parametrize(("count", "eager"), [(EAGER_FROM_OPS, True), (EAGER_FROM_OPS - 1, False)])
def test_torch_xla_counts_eager_ops(tmp_path, count, eager):
    trace_of().write(tmp_path / "plugins" / "profile" / "one" / "host0.xplane.pb")
    (tmp_path / "tpuprof").mkdir()
    (tmp_path / "tpuprof" / "telemetry.host0.0.jsonl").write_text(noted(count))
    found = next(each for each in analyze_run(tmp_path).findings if each.rule == "eager-mode")
    assert (found.status == "failed", found.confidence == "high") == (eager, eager)


@pytest.mark.parametrize(
    ("graphs", "tensors", "replicated", "eager"),
    [
        (EAGER_FROM_OPS, TENSORS_PER_OP * EAGER_FROM_OPS, True, True),
        (EAGER_FROM_OPS - 1, EAGER_FROM_OPS, True, False),
        # A step that cuts or reads often traces more than it cuts.
        (EAGER_FROM_OPS, TENSORS_PER_OP * EAGER_FROM_OPS + 1, True, False),
        # Without SPMD torch_xla would have measured them.
        (EAGER_FROM_OPS, EAGER_FROM_OPS, False, False),
    ],
)
def test_under_spmd_it_counts_graphs_and_tensors(tmp_path, graphs, tensors, replicated, eager):
    counters = {"CachedCompile": graphs, "CreateXlaTensor": tensors, "ExecuteReplicated": graphs * replicated}
    trace_of(backward=0).write(tmp_path / "plugins" / "profile" / "one" / "host0.xplane.pb")
    (tmp_path / "tpuprof").mkdir()
    (tmp_path / "tpuprof" / "telemetry.host0.0.jsonl").write_text(noted(0, **counters))
    found = next(each for each in analyze_run(tmp_path).findings if each.rule == "eager-mode")
    assert (found.status == "failed") == eager
