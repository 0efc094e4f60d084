"""Steps of a device of which the trace has ops and no programs."""

import pytest

from tests.builders import TraceBuilder, op
from tpuprof.model.steps.table import StepSource

STEPS, LENGTH = 10, 1000


def program(name, begin, ops, ids):
    """What one execution runs: ops of 100 µs side by side, the second of which is a loop with a body."""
    row = 0
    for row in range(ops):
        words = op(f"{name}.{row}", "while" if row == 1 else "fusion")
        words["facts"] |= ids
        yield words, begin + 100 * row, 100
    for inner in range(4):
        words = op(f"{name}.body")
        words["facts"] |= ids
        yield words, begin + 100 * min(row, 1) + 20 * inner, 20


def trace_of(*step, numbered=True, swapped=()):
    """Each step runs these programs (name, ops) in 300 µs each; in steps `swapped` two ops change places."""
    trace = TraceBuilder()
    for number in range(STEPS):
        # The host calls ahead: what it does says nothing of when steps run.
        trace.host().line("python").event("PjitFunction(step)", 20 * number, 10)
        for place, (name, ops) in enumerate(step):
            ids = {"program_id": sum(map(ord, name))} if numbered else {}
            for words, begin, length in program(name, number * LENGTH + 300 * place, ops, ids):
                swap = number in swapped and words["display"].endswith((".0", ".2"))
                at = begin + (200 if words["display"].endswith(".0") else -200) * swap
                trace.tpu(0).line("XLA Ops").event(**words, start=at, duration=length)
    return trace


@pytest.mark.parametrize("numbered", [True, False])
def test_ops_give_the_steps_where_the_trace_has_no_program(read, numbered):
    """Steps of 784 ms were calls with a mean of 574 ms: the host runs ahead of its device."""
    steps = read(trace_of(("f", 3), numbered=numbered)).steps
    assert steps.source is StepSource.OPS
    assert len(steps) == STEPS - 1  # nothing tells where the last one ends
    assert set(steps.wall_ps.tolist()) == {LENGTH * 1_000_000}


def test_ops_that_change_places_are_no_other_program(read):
    assert len(read(trace_of(("f", 3), swapped=(2, 3, 7))).steps) == STEPS - 1


def test_ops_that_overlap_by_rounding_are_not_inside_one_another(read):
    """Of 20 steps two were left, of ten programs each."""
    trace = TraceBuilder()
    for number in range(STEPS):
        early = 0.000001 * (number % 3 == 0)
        trace.tpu(0).line("XLA Ops").event(**op("fusion.1"), start=number * LENGTH, duration=500)
        trace.tpu(0).line("XLA Ops").event(**op("copy.1"), start=number * LENGTH + 500 - early, duration=400)
    assert len(read(trace).steps) == STEPS


@pytest.mark.parametrize("numbered", [True, False])
def test_a_step_of_several_programs_is_one(read, numbered):
    steps = read(trace_of(("f", 3), ("f", 3), ("update", 2), numbered=numbered)).steps
    assert len(steps) == STEPS
    assert set(steps.wall_ps[:-1].tolist()) == {LENGTH * 1_000_000}


def test_where_one_device_names_its_programs_these_give_the_steps(read):
    trace = trace_of(("f", 3))
    for number in range(STEPS):
        trace.tpu(1).line("XLA Modules").event("f(1)", number * LENGTH, 300)
    assert read(trace).steps.source is StepSource.PROGRAMS


def test_ops_that_do_not_repeat_make_no_period(read):
    trace = TraceBuilder()
    for number in range(STEPS):
        trace.tpu(0).line("XLA Ops").event(**op(f"fusion.{number}"), start=number * LENGTH, duration=300)
    assert read(trace).steps.source is StepSource.WHOLE_CAPTURE
