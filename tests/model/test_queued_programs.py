"""TorchTPU's training thread hands programs over faster than they run: nothing in its steps tells what holds them up."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.model.device.cpu import BEHIND_TO_SHARE

STEPS, LENGTH, CALLS = 8, 10_000, 8


def training(share, graphs=2):
    """Steps of 10 ms that call eight compiled functions and hand two graphs of ops over. So large a share runs."""
    trace = TraceBuilder()
    main, backward, builder, run = (
        trace.host().line(name) for name in ("python", "pt_autograd_0", "python ", "python  ")
    )
    handed = STEPS * (2 * CALLS + graphs)
    for number in range(STEPS):
        at = 100 + number * LENGTH
        main.event("ProfilerStep", at, LENGTH - 10)
        main.event("aten::linear", at + 5, 300)
        for call in range(CALLS):
            main.event("CompiledFunction", at + 400 + call * 500, 480)
            backward.event("CompiledFunctionBackward", at + 5_000 + call * 500, 480)
        for graph in range(graphs):
            builder.event("CompileTraversal", at + 600 + graph * 100, 20)
    for number in range(round(share * handed)):
        run.event("ExecutionTask::Run", 200 + number * STEPS * LENGTH // handed, 20)
    return trace, handed


@pytest.mark.parametrize(
    ("share", "behind"), [(BEHIND_TO_SHARE - 0.01, True), (BEHIND_TO_SHARE + 0.01, False), (1.3, False)]
)
def test_programs_that_pile_up_leave_the_verdict_undecided(analyze, share, behind):
    trace, handed = training(share)
    report = analyze(trace)
    assert (report.verdict.bound == "undecided") is behind
    said = report.verdict.sentence
    assert (f"handed {handed} programs over, and {round(share * handed)} of them began" in said) is behind
    assert said.endswith("to see whether the device falls further behind.") is behind
    failed = [each for each in report.findings if each.status == "failed" and each.category == "tracing"]
    assert not (behind and failed)


def test_a_device_that_works_off_what_came_before_the_capture_is_not_behind(analyze):
    assert analyze(training(4.0)[0]).verdict.bound != "undecided"
