"""Steps and devices of which a trace has programs and no ops."""

import pytest

from tests.builders import TraceBuilder, op
from tpuprof.model.device.recorded_ops import ALL_FROM_SHARE, WITHOUT_OPS_TO_SHARE
from tpuprof.model.run import NO_OPS

STEPS, LENGTH, OPS = 20, 1000, 10


def trace_of(*with_ops, marked=True, partial=OPS):
    """One device for each: steps of 1 ms, of which those rows have ops; the last of them has `partial` ops of ten."""
    trace = TraceBuilder()
    for step in range(STEPS):
        if marked:
            trace.host().line("python").event("train", step * LENGTH, LENGTH, _r=1, step_num=step)
        for index, rows in enumerate(with_ops):
            trace.tpu(index).line("XLA Modules").event("jit_f(1)", step * LENGTH, 900)
            for row in range((partial if step == rows[-1] else OPS) if step in rows else 0):
                words = op(f"copy-done.{row}", "copy-done", "1:S(5)") if row == 0 else op(f"fusion.{row}")
                trace.tpu(index).line("XLA Ops").event(**words, start=step * LENGTH + 90 * row, duration=90)
    return trace


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize(
    ("rows", "first"),
    [(range(7), 0), (range(6, STEPS), 6), (range(5, 15), 5)],
    ids=["begin", "end", "middle"],
)
def test_steps_without_ops_are_left_out(analyze, rows, first, marked):
    """Where the buffer of ops was full after a third of the steps, a third of the time was copies."""
    report = analyze(trace_of(rows, marked=marked))
    assert report.steps.count == len(rows)
    assert report.steps.per_step[0].index == first
    assert report.breakdown["compute"].ms_per_step == pytest.approx(0.81)
    assert f"the trace has ops in {len(rows)} of {STEPS} steps" in report.steps.note
    assert any(f"has ops in {len(rows)} of {STEPS} steps" in each for each in report.warnings)
    assert {each.name for each in report.phases} == {"ops not recorded"}
    assert next(each for each in report.findings if each.rule == "truncated-trace").status == "failed"


@pytest.mark.parametrize(("share", "count"), [(ALL_FROM_SHARE, 7), (ALL_FROM_SHARE - 0.1, 6)])
def test_a_step_of_which_only_some_ops_are_there_is_left_out(analyze, share, count):
    assert analyze(trace_of(range(7), partial=round(OPS * share + 0.1))).steps.count == count


@pytest.mark.parametrize(("lacks", "count"), [(0, STEPS), (1, STEPS - 3)])
def test_a_step_or_two_at_the_ends_stay(analyze, lacks, count):
    few = round(WITHOUT_OPS_TO_SHARE * STEPS) + lacks
    assert analyze(trace_of(range(STEPS - few))).steps.count == count


@pytest.mark.parametrize("rows", [range(0), range(7)], ids=["none", "some"])
def test_a_device_that_lacks_ops_is_left_out_where_others_have_them(analyze, rows):
    """It was in no op for all of the time, and the mean of the devices' parts said so."""
    report = analyze(trace_of(range(STEPS), rows or range(-1, 0), range(STEPS)))
    assert report.steps.count == STEPS
    assert report.breakdown["compute"].ms_per_step == pytest.approx(0.81)
    assert any("the trace lacks ops of /device:TPU:1, which ran programs" in each for each in report.warnings)
    assert report.environment["device_count"] == 3


def test_a_trace_without_any_op_stays_as_it_is(analyze):
    report = analyze(trace_of(range(-1, 0)))
    assert report.steps.count == STEPS
    assert report.verdict.sentence.endswith("Whether it computes there or waits is unknown.")


def test_a_host_without_ops_is_not_the_one_whose_replay_prices_a_fix(analyze):
    """Without communication that host's steps take as long: "a replay without it gains only 0 ms"."""

    def host(ops):
        trace = TraceBuilder()
        for step in range(STEPS):
            trace.host().line("python").event("train", step * LENGTH, LENGTH, _r=1, step_num=step)
            trace.tpu(0).line("XLA Modules").event("jit_f(1)", step * LENGTH, 900)
            for words, begin, duration in ops:
                trace.tpu(0).line("XLA Ops").event(**words, start=step * LENGTH + begin, duration=duration)
        return trace

    ops = [(op("fusion.1"), 0, 500), (op("all-reduce.1", "all-reduce"), 500, 400)]
    report = analyze(host([]), host(ops))
    found = next(each for each in report.findings if each.rule == "exposed-collectives")
    assert found.status == "failed"
    assert found.savings.high == pytest.approx(0.2, rel=0.1)
    assert f"host0: {NO_OPS}" in report.warnings


def test_time_in_programs_without_ops_is_said_beside_copies(analyze):
    trace = TraceBuilder()
    for step in range(STEPS):
        trace.tpu(0).line("XLA Modules").event("jit_f(1)", step * LENGTH, LENGTH)
        words = op("copy-done.1", "copy-done", "1:S(5)", operand="%copy-start.1")
        trace.tpu(0).line("XLA Ops").event(**words, start=step * LENGTH, duration=700)
    report = analyze(trace)
    assert report.verdict.bound == "offload"
    assert "For 30 % (300 µs) it is inside a program, and the trace shows no op" in report.verdict.sentence
