"""The first steps of a program that has a graph for each position of a buffer, or for each length of a batch."""

import pytest

from tests.model.test_compile_cause import embedded
from tpuprof.decode import hlo_pb2
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


@pytest.mark.parametrize(
    ("compiled", "programs", "calls"),
    [(12, 10, 10), (10, 12, 10), (MANY_STEPS - 1, 12, None), (12, MANY_STEPS - 1, None)],
)
def test_calls_before_a_recording_by_the_clock_count_where_no_step_was_seen(compiled, programs, calls):
    """A JAX program pads batches to their longest text: "fold repeated layers" was said of twelve lengths."""
    prepared = StepRecord(
        -1, 10**9, captured=False, compiles=compiled, compile_seconds=40.0,
        lines={LINE: compiled}, line_seconds={LINE: 36.0, "init (train.py:3)": 4.0},
    )  # fmt: skip
    found = start_graphs([prepared], graphs(programs))
    if calls is None:
        assert found is None
    else:
        assert (found.steps, found.of, found.share, found.cause.kind) == (calls, 0, 0.9, "shape")


def test_the_function_with_the_largest_programs_is_the_step():
    """Ops that made the parameters one by one were more programs: "a number in the graph changed" was said of them."""
    small = {f"jit_broadcast({row})": embedded(1 + row, line=3) for row in range(20)}
    large = {}
    for name, data in graphs(12).items():
        proto = hlo_pb2.HloProto.FromString(data)
        for row in range(20):
            proto.hlo_module.computations[0].instructions.add(
                id=9 + row, opcode=b"iota", name=b"iota.%d" % row
            )
        large[name] = proto.SerializeToString()
    assert start_graphs(noted(12), {**small, **large}).cause.source == "m.py:7"
