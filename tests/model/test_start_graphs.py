"""The first steps of a program that has a graph for each position of a buffer, or for each length of a batch."""

import pytest

from tests.model.test_compile_cause import embedded
from tpuprof.model.compile.start_graphs import LEAST_SECONDS, MANY_STEPS, start_graphs
from tpuprof.model.telemetry import StepRecord

LINE = "main (train.py:20)"


def noted(count, seconds=2.0 * LEAST_SECONDS, quiet=3, line=LINE):
    """Notes of steps that each compile, of some that do not, and of captured ones."""
    each = seconds / max(count, 1)
    compiling = [
        StepRecord(row, 10**9, captured=False, compiles=1, compile_seconds=each, line_seconds={line: each})
        for row in range(count)
    ]
    others = [StepRecord(count + row, 10**7, captured=False) for row in range(quiet)]
    return [*compiling, *others, StepRecord(count + quiet, 10**7, captured=True)]


def graphs(count):
    return {f"SyncTensorsGraph.9({row})": embedded(100 + row, line=7) for row in range(count)}


def test_steps_that_compile_one_graph_after_the_other_have_a_cause():
    """A queue of a momentum encoder was written at a Python number: 33 graphs, and "make the program smaller"."""
    found = start_graphs(noted(12), graphs(12))
    assert (found.steps, found.of, found.share) == (12, 12, 1.0)
    assert (found.cause.kind, found.cause.source) == ("shape", "m.py:7")


@pytest.mark.parametrize(("count", "many"), [(MANY_STEPS - 1, False), (MANY_STEPS, True)])
def test_few_graphs_are_the_usual_start(count, many):
    assert bool(start_graphs(noted(count), graphs(count))) is many


@pytest.mark.parametrize(("seconds", "looked"), [(LEAST_SECONDS - 0.1, False), (LEAST_SECONDS + 0.1, True)])
def test_what_compiles_quickly_is_not_looked_at(seconds, looked):
    assert bool(start_graphs(noted(12, seconds), graphs(12))) is looked


@pytest.mark.parametrize("protos", [{}, graphs(1), {"a(1)": b"\xff", "a(2)": b"\xff"}])
def test_graphs_that_the_profile_lacks_tell_no_cause(protos):
    assert start_graphs(noted(12), protos) is None


def test_what_compiles_after_the_captured_steps_is_no_start():
    records = noted(MANY_STEPS - 1)
    assert start_graphs([*records, *noted(12)[:12]], graphs(16)) is None


def test_the_line_counts_that_compiled_longest():
    evaluation = noted(2, 5.0, 0, "evaluate (train.py:40)")[:2]
    found = start_graphs([*evaluation, *noted(10)], graphs(12))
    assert (found.steps, found.of) == (10, 12)
    assert found.share == pytest.approx(20 / 25)
