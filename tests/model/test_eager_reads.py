"""Steps of an eager program without an optimizer: what lies between two reads of values."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.model.steps.from_cuts import MOST_TIME_FROM_SHARE

ITERATION = 1_000


def generating(words):
    """TorchTPU: iterations of 1 ms, each with its ops and then a read, if it has one (a letter per op, a dot to read)."""
    trace = TraceBuilder()
    main, run = trace.host().line("python"), trace.host().line("python ")
    for number, word in enumerate(words):
        at = number * ITERATION
        for letter in word:
            if letter == ".":
                main.event("tpuprof.host_read", at, 40, call="item", source="infer.py:5")
                main.event("AtenLocalScalarDense", at + 5, 30).event("CopyTpuToCpu", at + 10, 20)
            else:
                main.event(f"aten::{letter}", at, 40)
                run.event("ExecutionTask::Run", at + 40, 20)
            at += 60
    return trace


def walls(host):
    return [round(float(ps) / 1e9, 2) for ps in host.steps.wall_ps]


def test_a_read_ends_a_step(read):
    steps = read(generating(["abc."] * 6)).steps
    assert (steps.method, steps.confidence) == ("inferred from reads of values", "medium")
    assert walls(read(generating(["abc."] * 6))) == [1.0] * 5
    assert steps.note.startswith("one read of a value counts as one step")


def test_a_read_after_a_read_belongs_to_the_same_step(read):
    assert walls(read(generating(["abc.."] * 6))) == [1.0] * 5


def test_several_reads_of_a_step_repeat_together(read):
    host = read(generating(["ab.cd."] * 6))
    assert set(walls(host)) == {1.0}
    assert host.steps.note.startswith("a step is 2 reads, which repeat")


def test_a_rarer_read_is_part_of_some_steps(read):
    host = read(generating((["abc."] * 9 + ["abc.d."]) * 3))
    assert "where it follows the ops that most follow; 9.1 % follow others" in host.steps.note
    assert walls(host)[:8] == [1.0] * 8


@pytest.mark.parametrize(("word", "confidence"), [("abcde.", "medium"), ("ababababab.", "low")])
def test_ops_that_repeat_between_two_reads_may_be_several_steps(read, word, confidence):
    steps = read(generating([word] * 6)).steps
    assert steps.confidence == confidence
    assert ("several steps may lie between them" in steps.note) == (confidence == "low")


@pytest.mark.parametrize(
    ("count", "method"), [(2, "the whole capture"), (3, "inferred from reads of values")]
)
def test_two_reads_are_no_steps(read, count, method):
    assert read(generating(["abc."] * count)).steps.method == method


@pytest.mark.parametrize(
    ("more", "width"),
    [(MOST_TIME_FROM_SHARE - 0.1, "one read of a value"), (MOST_TIME_FROM_SHARE + 0.1, "a step is 8 reads")],
)
def test_reads_of_one_kind_in_a_step_are_not_each_a_step_where_the_rest_takes_longer(read, more, width):
    """Norms of seven gradients are read one by one; what comes before the first takes that share of the time."""
    norms, step = 7 * 120, 120 * 7 / (1 - more)
    trace = TraceBuilder()
    main, run = trace.host().line("python"), trace.host().line("python ")
    for number in range(8):
        at = number * step
        main.event("aten::linear", at, 40)
        for norm in range(8):
            at = number * step + step - norms + (norm - 1) * 120 if norm else at
            main.event("aten::norm", at + 10, 40)
            end = at + 70 if norm else number * step + step - norms - 50
            main.event("tpuprof.host_read", end, 40, call="item", source="train.py:5")
            run.event("ExecutionTask::Run", at + 40, 20)
    assert read(trace).steps.note.startswith(width)
