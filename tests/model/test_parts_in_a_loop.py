"""TorchTPU: a graph break inside a loop leaves one compiled function, which a step calls once for each turn."""

import json

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run

STEP = 10_000
PART = 400


def looped(path, parts=8, *, passes=1, noted=True):
    """Steps of 10 ms in which a function is called so often in each of so many passes, and their backward passes."""
    trace = TraceBuilder()
    main, graph, run = (trace.host().line(name) for name in ("python", "python ", "python  "))
    autograd = trace.host().line("pt_autograd_0")
    for number in range(6):
        begin = at = number * STEP
        main.event("ProfilerStep", begin, STEP - 10)
        for _ in range(passes):
            for _ in range(parts):
                main.event("TorchDynamo Cache Lookup", at + 10, 20)
                region = main.event("Torch-Compiled Region: 1/0", at + 40, PART - 60)
                region.event("CompiledFunction", at + 60, PART - 90)
                run.event("ExecutionTask::Run", at + 100, 50)
                at += PART
            for _ in range(parts):
                autograd.event("CompiledFunctionBackward", at + 10, PART - 20)
                run.event("ExecutionTask::Run", at + 100, 50)
                at += PART
        for _ in range(10):
            main.event("aten::mul_", at, 90)
            graph.event("CompileTraversal", at + 10, 10)
            run.event("ExecutionTask::Run", at + 30, 20)
            at += 100
        main.event("Optimizer.step", at, 100)
    trace.write(path / "plugins" / "profile" / "2026_11_22" / "vm.xplane.pb")
    folder = path / "tpuprof"
    folder.mkdir()
    note = {"source": "train.py:29", "reason": "a call that dynamo skips", "function": "forward"}
    info = {
        "schema": "tpuprof.run/1",
        "framework": "torch_tpu",
        "dynamo": {"breaks": [note] if noted else []},
    }
    (folder / "run.json").write_text(json.dumps(info))
    report = analyze_run(path)
    return {each.rule: each for each in report.findings}, report


def test_parts_that_a_loop_calls_are_a_broken_graph(tmp_path):
    """ "Graph breaks cost little or nothing" was said; without the break steps took 26 % less."""
    found, report = looped(tmp_path)
    rule = found["graph-breaks"]
    assert (rule.status, rule.confidence) == ("failed", "medium")
    assert "breaks at train.py:29, and its parts are called again 7 times in a pass" in rule.title
    assert next(each.rule for each in report.findings if each.status == "failed") == "graph-breaks"


def test_the_parts_are_no_ops_that_run_alone(tmp_path):
    """Of 26 programs 24 were "ops one by one", and the advice was to accumulate fewer gradients."""
    rule = looped(tmp_path)[0]["eager-dispatch"]
    values = {each.text: each.value for each in rule.evidence}
    assert values["programs run"] == pytest.approx(26, abs=0.5)
    assert values["calling all but one part of the broken graph, left out here"] > 4
    assert rule.status == "passed" or "10 programs for 10 ops" in rule.title


@pytest.mark.parametrize(("parts", "passes", "noted"), [(1, 4, True), (8, 1, False), (1, 1, True)])
def test_micro_batches_and_calls_without_a_noted_break_are_none(tmp_path, parts, passes, noted):
    assert looped(tmp_path, parts, passes=passes, noted=noted)[0]["graph-breaks"].status == "passed"
