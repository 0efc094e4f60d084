"""Steps of a JAX function that compiled for several shapes: its programs do not repeat, and its runs do."""

import pytest

from tests.builders import TraceBuilder

# Programs of runs, in no period.
ORDER = [1, 2, 3, 1, 4, 5, 6, 7, 2, 8, 9, 3, 10, 11, 4]


def captured(order, modules, framework="PjitFunction(train)"):
    """All calls at once, as the host runs ahead of the device, and then the programs one after the other."""
    trace = TraceBuilder()
    python, device = trace.host().line("python"), trace.host().line("tf_XLATfrtCpuClient/7")
    for number in range(len(order)):
        python.event(framework, 10 + number, 1)
    for number, program in enumerate(order):
        begin = 100 + 1000 * number
        name = modules(program)
        device.event("ThunkExecutor::Execute (wait for completion)", begin, 990)
        device.event("dot.1", begin + 5, 950, hlo_op="dot.1", hlo_module=name, program_id=program)
    python.event("PjRtCpuBuffer::ToLiteral", 30, 1000 * len(order))
    return trace


def test_a_step_is_a_run_of_the_function(analyze):
    report = analyze(captured(ORDER, lambda _program: "jit_train"))
    assert report.steps.count >= len(ORDER) - 1
    assert report.steps.median_ms == pytest.approx(1e-3 * 1000, rel=0.02)
    assert report.steps.note.endswith("; 11 programs of 1 function ran")


def test_several_functions_that_do_not_repeat_are_no_step(analyze):
    report = analyze(captured(ORDER, lambda program: f"jit_f{program}"))
    assert report.steps.whole_capture or report.steps.confidence == "low"


def test_graphs_of_torch_xla_are_no_function(analyze):
    """Each read of a gradient ran a graph of its own, and four of five had one name: four "steps" of 1.2 s."""
    report = analyze(captured(ORDER, lambda _program: "SyncTensorsGraph.7", "python"))
    assert "function" not in report.steps.note
