"""Reads of one step in a trace without a device plane: how much of their waits is for what that step hands over."""

import pytest

from tests.builders import TraceBuilder

STEPS, OPS, WAIT = 10, 20, 9_000


def trace_of(calls=OPS, reads=1, calls_between=0):
    """Steps of 20 ops; the last one makes `calls`, and waits 9 ms in each of `reads`, with ops between them."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    trace.host().line("python ").event("ExecutionTask::Run", 10, 5)
    at = 100
    for step in range(STEPS):
        begin, number = at, calls if step == STEPS - 1 else OPS
        at += 10
        for _ in range(number):
            python.event("aten::linear", at, 50)
            at += 60
        for _ in range(reads if step == STEPS - 1 else 0):
            python.event("AtenLocalScalarDense", at, WAIT)
            at += WAIT + 10
            for _ in range(calls_between):
                python.event("aten::linear", at, 50)
                at += 60
        python.event("ProfilerStep", begin, at - begin)
        at += 10
    return trace


@pytest.mark.parametrize(
    ("facts", "own"),
    [
        # The step, its read and one more call: next to nothing of ten steps' work is its own.
        ({}, 0.0),
        # A step's calls twice over: one eleventh of what it waits for.
        ({"calls": 2 * OPS}, WAIT / 11),
        # As many calls as ten more steps make.
        ({"calls": 11 * OPS}, WAIT / 2),
        # Later reads wait for what was handed over since the first.
        ({"reads": 5, "calls_between": OPS}, 4 * WAIT),
    ],
    ids=["a log", "twice the calls", "an evaluation read once", "an evaluation read often"],
)
def test_a_read_waits_for_all_and_later_ones_for_their_own(read, facts, own):
    found = [ps / 1e6 for ps in read(trace_of(**facts)).own_waits.tolist()]
    assert found[:-1] == [0.0] * (STEPS - 1)
    assert found[-1] == pytest.approx(own, abs=0.02 * WAIT)
