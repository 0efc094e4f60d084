"""A generator of the program's own that feeds its loop is its input; a training loop that yields is none."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.sections.host_stacks import host_stack_rows

MAKES = "batches (/home/u/data.py:3)"
LOOP = "main (/home/u/train.py:20)"
GRAIN = "__next__ (/venv/lib/python3.11/site-packages/grain/_src/python/dataset/dataset.py:9)"
STEPS, STEP = 5, 20_000


def words(call, source, *frames, iterator=MAKES):
    names = {"frames": ";".join(frames), "call": call, "source": source, "user_call": call}
    return {**names, "iterator": iterator} if iterator else names


def loop(made, called):
    """Steps of 20 ms: 15 ms at one stack, then a jitted function is called for 4 ms at another."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(STEPS):
        at = number * STEP
        python.event("train", at, STEP, _r=1, step_num=number)
        python.event("PjitFunction(step)", at + 15_500, 4_000)
        trace.sampled(at, 7_500, stack=1, **(made if not number else {}))
        trace.sampled(at + 7_500, 7_500, stack=1)
        trace.sampled(at + 15_000, 4_000, stack=2, **(called if not number else {}))
        trace.sampled(at + 19_000, 1_000, stack=2)
    return trace


def parts(host):
    return {name: column.sum() / 1e9 / STEPS for name, column in host.breakdown.parts.items() if column.any()}


@pytest.mark.parametrize("iterator", [MAKES, "__next__ (/home/u/data.py:3)"])
def test_a_generator_that_feeds_the_loop_is_its_input(read, iterator):
    made = words("np.sort(row)", "/home/u/data.py:7", LOOP, MAKES, iterator=iterator)
    host = read(loop(made, words("update(w, x)", "/home/u/train.py:22", LOOP, iterator="")))
    assert parts(host)["input_wait"] == pytest.approx(15, abs=0.6)
    (row,) = [row for row in host_stack_rows([host]) if row.part == "input_wait"]
    assert row.source == "/home/u/data.py:7"


def test_a_loader_of_a_library_is_input_too(read):
    made = words("self._transform.map(record)", "/home/u/train.py:20", LOOP, GRAIN, iterator="")
    host = read(loop(made, words("update(w, x)", "/home/u/train.py:22", LOOP, iterator="")))
    assert parts(host)["input_wait"] == pytest.approx(15, abs=0.6)


def test_a_training_loop_that_yields_is_no_input(read):
    """Its calls of the jitted function come from inside the generator."""
    fits = "fit (/home/u/train.py:3)"
    made = words("log.digest()", "/home/u/train.py:9", LOOP, fits, iterator=fits)
    called = words("update(w, x)", "/home/u/train.py:8", LOOP, fits, iterator=fits)
    shown = parts(read(loop(made, called)))
    assert "input_wait" not in shown
    assert shown["host:python"] == pytest.approx(15, abs=1.1)


def test_slow_input_of_the_programs_own_is_the_first_finding(analyze):
    made = words("np.sort(row)", "/home/u/data.py:7", LOOP, MAKES)
    report = analyze(loop(made, words("update(w, x)", "/home/u/train.py:22", LOOP, iterator="")))
    assert report.verdict.bound == "input"
    first = report.findings[0]
    assert (first.rule, first.status) == ("input-starved", "failed")
    assert "/home/u/data.py:7 (np.sort(row))" in first.title


@pytest.mark.parametrize(("late", "is_input"), [(1_200, True), (200, False)])
def test_a_sample_is_of_the_moment_of_the_look_not_of_its_note(read, late, is_input):
    """Looking at other threads takes the sampler a millisecond, in which the loop goes on from its input to a call."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(STEPS):
        at = number * STEP
        python.event("train", at, STEP, _r=1, step_num=number)
        python.event("PjitFunction(step)", at + 15_000, 4_500)
        made = words("np.sort(row)", "/home/u/data.py:7", LOOP, MAKES) if not number else {}
        trace.sampled(at, 7_500, stack=1, **made)
        trace.sampled(at + 7_500, 8_500, stack=1, late_us=late)
        called = words("log(i)", "/home/u/train.py:22", LOOP, iterator="") if not number else {}
        trace.sampled(at + 16_000, 4_000, stack=2, **called)
    assert ("input_wait" in parts(read(trace))) == is_input


DEVICE_LOADER = "next (/venv/lib/python3.11/site-packages/torch_xla/distributed/parallel_loader.py:41)"


def test_a_graph_cut_of_a_loader_is_no_wait_for_input(read):
    """MpDeviceLoader cuts the graph, and then waits for its batch: 10 ms around the cut's own events, then 5 ms."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(STEPS):
        at = number * STEP
        python.event("train_step", at, STEP, _r=1, step_num=number)
        python.event("tpuprof.dataloader.next", at + 5_000, 15_000)
        python.event("tpuprof.graph_cut", at + 5_000, 10_000)
        python.event("StepMarker", at + 9_000, 2_000)
        cut = words("mark_step()", "/home/u/train.py:20", LOOP, DEVICE_LOADER, iterator="")
        trace.sampled(at, 10_000, ops=300, stack=1, **(cut if not number else {}))
        trace.sampled(at + 10_000, 10_000, ops=100, stack=1)
    shown = parts(read(trace))
    assert shown["input_wait"] == pytest.approx(5, abs=0.1)
    assert shown["tracing"] == pytest.approx(15, abs=0.1)
