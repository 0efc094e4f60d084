"""Ops on the host whose inputs come from graphs of their own, and the step that computes the same again."""

from dataclasses import replace

import pytest

from tests.model.test_read_graphs import STEPS, program, trace_of
from tpuprof.model.compile.recurrence import History
from tpuprof.model.host.reads import IMPLICIT, IMPLICIT_BACKWARD
from tpuprof.model.host_run import read_host_run
from tpuprof.model.step_times import StepTimes
from tpuprof.model.telemetry import StepRecord
from tpuprof.model.verdict import bound_of
from tpuprof.model.verdict_sentence import sentence
from tpuprof.model.verdict_words import NAMED_FROM_SHARE, READS_IN_STEPS_SHARE

FELL_BACK = {"MarkStep": 1, "aten::_ctc_loss": 1}


def rows(tmp_path, counters, **trace):
    path = trace_of(reads=range(STEPS), **trace).write(tmp_path / "host.xplane.pb")
    records = [StepRecord(0, 1_000_000, captured=True, counters=counters)]
    host = read_host_run("host", path, history=History(records))
    return [(each.occurrences, each.again_ps / 1e6) for each in host.fallback_graphs], host.read_graphs


@pytest.mark.parametrize("thread", ["python", "pt_autograd_0"])
def test_what_the_step_has_as_well_is_computed_again(tmp_path, thread):
    """Of a loss that falls back, both passes: the backward one is in autograd's thread."""
    assert rows(tmp_path, FELL_BACK, fetches=True, thread=thread) == ([(STEPS, 500.0 * STEPS)], [])


@pytest.mark.parametrize("waits_from", [160, 400, 660])
def test_a_program_runs_from_its_cut_on_and_not_from_the_wait_on(tmp_path, waits_from):
    """The device begins at once: of 7 ms for the inputs of two ops 3.6 ms were seen, and too little to be named."""
    assert rows(tmp_path, FELL_BACK, fetches=True, waits_from=waits_from) == ([(STEPS, 500.0 * STEPS)], [])


def test_a_program_of_the_steps_own_cut_is_not_what_an_op_ran(tmp_path):
    """An op that takes in what the last graph cut left on the device waits for that, and runs nothing."""
    found, _ = rows(tmp_path, FELL_BACK, fetches=True, cuts=False, waits_from=400)
    assert found == []


def test_what_only_the_op_needs_is_computed_once(tmp_path):
    found, _ = rows(tmp_path, FELL_BACK, fetches=True, of_step=program(6, line=11))
    assert found == [(STEPS, 0.0)]


def test_reads_of_the_program_are_none(tmp_path):
    found, reads = rows(tmp_path, FELL_BACK)
    assert (found, len(reads)) == ([], 1)


NO_OP = {"MarkStep": 1, "aten::_local_scalar_dense": 1}


@pytest.mark.parametrize(("thread", "call"), [("python", IMPLICIT), ("pt_autograd_0", IMPLICIT_BACKWARD)])
def test_reads_of_code_in_cpp_are_reads(tmp_path, thread, call):
    """`torchvision.ops.nms` reads how many boxes are left: "Nothing: no rule failed" was said of a detector.

    So do checks of anomaly detection in autograd's thread: 91 reads per step, which ran the step's graph again, were
    "values are read, but the device has work meanwhile".
    """
    found, (read,) = rows(tmp_path, NO_OP, fetches=True, thread=thread)
    assert found == []
    assert (read.call, read.source, read.occurrences) == (call, "", STEPS)
    assert read.again_ps / 1e6 == 500.0 * STEPS


@pytest.mark.parametrize("begins", [100, 300], ids=["seen", "seen after the read"])
def test_reads_in_the_backward_pass_are_at_the_line_that_calls_it(tmp_path, begins):
    """Samples are of the training thread; between two of them nothing shows when it called `.backward()`."""
    trace = trace_of(reads=range(STEPS), fetches=True, thread="pt_autograd_0")
    below = "_engine_run_backward (/venv/lib/python3.11/site-packages/torch/autograd/graph.py:9)"
    for step in range(STEPS):
        for at, until, line, frames in ((0, begins, 3, ()), (begins, 700, 4, (below,))):
            words = {
                "frames": ";".join((f"<module> (train.py:{line})", *frames)),
                "source": f"train.py:{line}",
            }
            trace.sampled(step * 1000 + at, until - at, stack=line, call="", user_call="", **words)
    records = [StepRecord(0, 1_000_000, captured=True, counters=NO_OP)]
    host = read_host_run("host", trace.write(tmp_path / "host.xplane.pb"), history=History(records))
    (read,) = host.host_reads
    assert (read.call, read.source, read.occurrences) == (IMPLICIT_BACKWARD, "train.py:4", STEPS)
    assert [each.source for each in host.read_graphs] == ["train.py:4"]


def load(**given):
    """A busy device, whose work for an op of 7 ms on the host is done twice for 28 of 100 ms."""
    parts = {"compute": 84.0, "tracing": 9.0, "aten_fallback": 7.0}
    return replace(StepTimes(100.0, parts, 84.0, 16.0, 0.0, fallbacks_share=1.0, again_for_ops=28.0), **given)


@pytest.mark.parametrize(
    ("given", "word", "ms"),
    [
        ({}, "fallback", 35.0),
        ({"again_for_ops": 3.0}, "fallback", 10.0),
        ({"again_for_ops": 2.9}, "device", 84.0),
        ({"fallbacks_share": READS_IN_STEPS_SHARE - 0.01}, "device", 84.0),
    ],
)
def test_a_busy_device_is_held_back_by_ops_for_which_it_works_twice(given, word, ms):
    bound = bound_of(load(**given))
    assert (bound.word, bound.ms) == (word, pytest.approx(ms))
    assert NAMED_FROM_SHARE == 0.1


def test_the_sentence_says_that_it_is_work_done_again():
    said = sentence(bound_of(load()), load(), 0.0)
    assert said.startswith("Fallback-bound: ops that XLA does not know run on the host. ")
    assert "the step computes the same again, which costs about 35 % of each step (35.0 ms of 100 ms)" in said
