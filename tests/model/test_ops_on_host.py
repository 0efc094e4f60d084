"""TorchTPU: ops whose tensors are in the host's memory are computed by the training thread, and are no dispatch."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.model.host.ops_on_host import ON_HOST_FROM_PS
from tpuprof.units import PS_PER_US

STEP = 10_000
LONG = ON_HOST_FROM_PS // PS_PER_US
TORCH = "forward (/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py:134)"


def distilled(path, op_us, *, runtime=False, samples=True):
    """Five steps of 10 ms with a teacher's ops of so long (us) for 6 ms, and 2 ms in which the student's are handed over.

    `runtime` tells that threads of the runtime have events meanwhile.
    """
    trace = TraceBuilder()
    main, graph, run = (trace.host().line(name) for name in ("python", "python ", "python  "))
    for number in range(5):
        begin = number * STEP
        main.event("ProfilerStep", begin, STEP - 10)
        for at in range(begin + 100, begin + 6_100 - op_us + 1, op_us):
            main.event("aten::linear", at, op_us).event("aten::addmm", at + 1, op_us - 2)
        if runtime:
            run.event("ExecutionTask::Run", begin + 100, 6_000)
        for at in range(begin + 6_200, begin + 8_200, 20):
            main.event("aten::mul", at, 18)
            graph.event("CompileTraversal", at + 2, 4)
            run.event("ExecutionTask::Run", at + 8, 4)
        main.event("Optimizer.step", begin + 8_300, 100)
        words = {
            "frames": f"main (/home/u/train.py:9);{TORCH}",
            "call": "F.linear(input)",
            "source": "/home/u/train.py:9",
        }
        if samples:
            trace.sampled(begin + 100, 6_000, cpu=6_000, stack=1, user_call="teacher(x)", **words)
    return analyze_run(trace.write(path / "vm.xplane.pb"))


def parts(found):
    return {name: row.ms_per_step for name, row in found.breakdown.items()}


@pytest.mark.parametrize("op_us", [LONG + 500, 3_000])
def test_a_teacher_that_was_left_on_the_cpu_is_code_of_the_host(tmp_path, op_us):
    """ "Dispatch-bound: the host calls ops and hands programs over for 99 % of each step" was said of it."""
    found = distilled(tmp_path, op_us)
    assert parts(found)["host:python"] == pytest.approx(6.0, abs=0.6)
    assert found.verdict.bound == "host"
    assert "at /home/u/train.py:9 (teacher(x))" in found.verdict.sentence


def test_without_samples_it_is_no_dispatch_either(tmp_path):
    found = parts(distilled(tmp_path, 3_000, samples=False))
    assert found["dispatch"] < 4.0
    assert found["host_other"] > 5.5


@pytest.mark.parametrize(("op_us", "runtime"), [(LONG - 100, False), (3_000, True)])
def test_short_ops_and_those_that_the_runtime_works_on_are_dispatch(tmp_path, op_us, runtime):
    found = parts(distilled(tmp_path, op_us, runtime=runtime))
    assert found["dispatch"] > 7.0
    assert "host:python" not in found
