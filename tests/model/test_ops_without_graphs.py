"""TorchTPU: ops of which no graph is built compute on the host, unless ops are deferred."""

import json

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.model.host.ops_without_graphs import BEHIND_PS, OPS_PER_GRAPH
from tpuprof.units import PS_PER_US

STEP = 10_000
FRAMES = "make_mask (/home/u/train.py:47);main (/home/u/train.py:60)"
BEHIND = BEHIND_PS // PS_PER_US


def masked(path, *, graphs=0, behind=20, deferred=False, noted=True, ran=True, op_us=4):
    """Six steps of 10 ms: 6 ms of small ops, of every n-th of which (`graphs`) a graph is built, then 12 ops of a device.

    Graphs are built so long (us) after the op was called.
    """
    trace = TraceBuilder()
    main, graph, run = (trace.host().line(name) for name in ("python", "python ", "python  "))
    for number in range(6):
        begin = number * STEP
        main.event("ProfilerStep", begin, STEP - 10)
        for row, at in enumerate(range(begin + 100, begin + 6_100, 2 * op_us)):
            main.event("aten::eq", at, op_us)
            if graphs and row % graphs == 0:
                graph.event("CompileTraversal", at + behind, 2)
                run.event("ExecutionTask::Run", at + behind + 3, 2)
        for at in range(begin + 7_000, begin + 9_400, 200):
            main.event("aten::mul", at, 180)
            graph.event("CompileTraversal", at + 20, 10)
            if ran or at % 400 == 0:
                run.event("ExecutionTask::Run", at + 40, 20)
        main.event("Optimizer.step", begin + 9_500, 100)
        trace.sampled(
            begin + 100, 6_000, cpu=6_000, stack=1, frames=FRAMES, call="a == b", source="/home/u/train.py:47"
        )
    trace.write(path / "plugins" / "profile" / "2026_11_22" / "vm.xplane.pb")
    folder = path / "tpuprof"
    folder.mkdir()
    info = {
        "schema": "tpuprof.run/1",
        "defers_ops": deferred,
        **({"framework": "torch_tpu"} if noted else {}),
    }
    (folder / "run.json").write_text(json.dumps(info))
    report = analyze_run(path)
    rule = next(each for each in report.findings if each.rule == "eager-dispatch")
    ops = next(each.value for each in rule.evidence if each.text == "ops called")
    return report, ops, report.breakdown["dispatch"].ms_per_step


def test_a_mask_of_cpu_tensors_is_code_of_the_host(tmp_path):
    """ "11 programs for 9,155 ops, and 47 % of a typical step goes to calling them" was said of it."""
    report, ops, dispatch = masked(tmp_path)
    assert ops == pytest.approx(12, abs=1)
    assert dispatch < 3.5
    assert report.verdict.bound == "host"
    assert "at /home/u/train.py:47" in report.verdict.sentence


@pytest.mark.parametrize(
    "facts",
    [
        {"graphs": 1},
        {"graphs": OPS_PER_GRAPH},
        # The thread that builds graphs is behind.
        {"graphs": 1, "behind": BEHIND - 100},
        {"graphs": 1, "behind": 3_000},
        {"deferred": True},
        # The device is behind: it runs half of the programs, and graphs of a stretch may come much later.
        {"ran": False},
        # Nobody noted whether ops are deferred.
        {"noted": False},
    ],
)
def test_ops_that_become_programs_soon_or_may_be_deferred_are_dispatch(tmp_path, facts):
    _, ops, dispatch = masked(tmp_path, **facts)
    assert ops > 700
    assert dispatch > 5.0


@pytest.mark.parametrize(("graphs", "on_host"), [(OPS_PER_GRAPH - 1, False), (OPS_PER_GRAPH + 2, True)])
def test_graphs_that_are_built_behind_may_be_of_as_many_ops(tmp_path, graphs, on_host):
    _, ops, _ = masked(tmp_path, graphs=graphs, behind=3_000)
    assert (ops < 600) is on_host
