"""TorchTPU: an eager host hands steps over in no time, and a slow device does their work after the last of them."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run

# A step of the host, and its one program on the device (microseconds).
HOST, DEVICE = 1_000, 50_000


def ahead(steps=20, *, first=0, before=0, end="synchronize", rests=False):
    """A loop that reads nothing until its end, of which the device does `before` steps that came before the capture."""
    trace = TraceBuilder()
    main, graph, run = (trace.host().line(name) for name in ("python", "python ", "python  "))
    for number in range(steps):
        begin = number * HOST
        main.event("train_step", begin, HOST, _r=1, step_num=first + number)
        for op in range(4):
            main.event("aten::linear", begin + 50 + 200 * op, 100)
        graph.event("CompileTraversal", begin + 60, 20)
        main.event("Optimizer.step", begin + 900, 50)
    at = 100
    for number in range(before + steps):
        run.event("ExecutionTask::Run", at, 500 if rests and number < steps // 2 else DEVICE)
        at += 1_000 if rests and number < steps // 2 else DEVICE + 1
    begin = steps * HOST + 10
    main.event("tpuprof.host_read", begin, at - begin, call=end, source="train.py:19")
    if end == "item":
        main.event("aten::item", begin + 1, at - begin - 2)
        main.event("AtenLocalScalarDense", begin + 2, at - begin - 4)
        main.event("CopyTpuToCpu", begin + 3, at - begin - 6)
    return trace


@pytest.fixture
def report(tmp_path):
    return lambda trace: analyze_run(trace.write(tmp_path / "vm.xplane.pb"))


def mean_ms(found):
    return sum(row.wall_ms for row in found.steps.per_step) / found.steps.count


@pytest.mark.parametrize("end", ["synchronize", "item"])
def test_a_wait_for_all_steps_at_the_end_is_the_devices_work(report, end):
    """A compiled step calls few ops: those of one read looked like another step, and the loop "Dispatch-bound"."""
    found = report(ahead(end=end))
    assert found.verdict.bound == "device"
    assert found.verdict.sentence.startswith("Probably device-bound")
    assert mean_ms(found) == pytest.approx(50, rel=0.02)
    assert not [each.rule for each in found.findings if each.status == "failed"]


def test_a_step_that_follows_counts_as_before(report):
    """Its ops come after the last captured step: what runs then may be its work."""
    trace = ahead()
    for op in range(3):
        trace.host().line("python").event("aten::linear", 2_000_000 + 200 * op, 100)
    assert mean_ms(report(trace)) == pytest.approx(1, rel=0.1)


def test_work_of_steps_before_the_capture_does_not_count(report):
    """The queue was full when the capture began: 20 steps that took 50 ms each were 100 ms long."""
    found = report(ahead(first=20, before=20))
    assert mean_ms(found) == pytest.approx(50, rel=0.05)
    assert (
        "some of what ran may be of the 20 steps before it: steps took 50.0 ms to 100 ms" in found.steps.note
    )


def test_a_queue_that_was_empty_in_the_steps_holds_no_older_work(report):
    found = report(ahead(first=20, rests=True))
    assert mean_ms(found) == pytest.approx(25, rel=0.1)
    assert "before it" not in found.steps.note
