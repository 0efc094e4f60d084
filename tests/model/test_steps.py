"""Step boundaries from each source, in the order of trust."""

import pytest

from tests.builders import TraceBuilder, op


def ms(values):
    return [round(value / 1e9, 6) for value in values.tolist()]


def test_marked_steps_last_until_the_next(read):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(3):
        python.event("train", 1000 * number, 600, _r=1, step_num=10 + number)
    steps = read(trace).steps
    assert steps.method == "step markers"
    assert steps.confidence == "high"
    assert steps.number.tolist() == [10, 11, 12]
    assert ms(steps.wall_ps) == [1.0, 1.0, 0.6]


def test_markers_without_numbers_are_counted(read):
    trace = TraceBuilder()
    trace.host().line("python").repeat("train", [0, 1000], 900, _r=1)
    assert read(trace).steps.number.tolist() == [0, 1]


def test_a_marker_inside_a_marker_is_no_step_of_its_own(read):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(2):
        python.event("train", 1000 * number, 900, _r=1, step_num=number)
        python.event("inner", 1000 * number + 100, 300, _r=1, step_num=99)
    assert read(trace).steps.number.tolist() == [0, 1]


def test_our_own_markers_go_before_others(read):
    trace = TraceBuilder()
    python = trace.host().line("python")
    python.repeat("other", [0, 250, 500, 750], 200, _r=1, step_num=5)
    python.event("train_step", 1000, 900, _r=1, step_num=7, tpuprof="step")
    assert read(trace).steps.number.tolist() == [7]


def test_torch_profiler_steps(read):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(3):
        python.event(f"ProfilerStep#{number + 4}", 1000 * number, 1000)
    steps = read(trace).steps
    assert steps.method == "torch.profiler steps"
    assert steps.number.tolist() == [4, 5, 6]


def test_the_devices_steps_line(read):
    trace = TraceBuilder()
    trace.tpu(0).line("Steps").repeat("1", [0, 1000, 2000], 950)
    trace.tpu(0).line("XLA Modules").repeat("f(1)", [0, 1000, 2000], 900)
    steps = read(trace).steps
    assert steps.method == "device Steps line"
    assert ms(steps.wall_ps) == [1.0, 1.0, 0.95]


def cut(python, end, *, graph=True):
    python.event("StepMarker", end - 100, 100)
    python.event("SyncLiveTensorsGraph", end - 95, 90)
    if graph:
        python.event("RunPostOrder", end - 80, 20)


def test_graph_cuts_and_empty_cuts(read):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for end in (1000, 2000, 3000, 4000):
        cut(python, end)
        cut(python, end + 110, graph=False)
    steps = read(trace).steps
    assert steps.method == "inferred from graph cuts"
    assert steps.confidence == "medium"
    assert ms(steps.wall_ps) == [1.0, 1.0, 1.0]


def test_period_of_one_program(read):
    trace = TraceBuilder()
    modules = trace.tpu(0).line("XLA Modules")
    modules.event("init(9)", 0, 50)
    modules.repeat("f(1)", [1000 * i for i in range(1, 9)], 900)
    steps = read(trace).steps
    assert steps.method == "inferred from the period of XLA Modules"
    assert len(steps) == 8
    assert ms(steps.wall_ps)[:2] == [1.0, 1.0]


def test_period_of_gradient_accumulation(read):
    """Four times the same program, then the optimizer's: that is one step, not five."""
    trace = TraceBuilder()
    modules = trace.tpu(0).line("XLA Modules")
    for step in range(6):
        modules.repeat("micro(1)", [1000 * step + 200 * i for i in range(4)], 190)
        modules.event("optimizer(2)", 1000 * step + 800, 150)
    steps = read(trace).steps
    assert len(steps) == 6
    assert ms(steps.wall_ps)[:5] == [1.0] * 5
    assert ms(steps.wall_ps)[5] == pytest.approx(0.95)


def test_nothing_to_tell_steps_by(analyse):
    trace = TraceBuilder()
    trace.tpu(0).line("XLA Modules").event("f(1)", 0, 900)
    trace.tpu(0).line("XLA Ops").event(start=0, duration=900, **op("fusion.1"))
    report = analyse(trace)
    assert (report.steps.count, report.steps.confidence) == (1, "low")
    assert report.steps.method == "executions of the main program"
    assert report.verdict.sentence.endswith("each execution counts as a step, with the programs after it.")
