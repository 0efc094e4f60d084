"""What is said where steps took longer after the capture than in it."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.run_warnings import SLOWED_FROM_CALLS, _unmarked_calls, run_warnings
from tpuprof.model import outside_capture as outside
from tpuprof.model.compile.recurrence import MIN_STEPS_AFTER, AfterCapture, Stage
from tpuprof.model.host.eager_dispatch import EagerDispatch
from tpuprof.model.host.samples import HostSamples
from tpuprof.model.host.stacks import Stack
from tpuprof.model.intervals import Spans
from tpuprof.model.outside_capture import (
    COMPILES_TO_SHARE,
    COMPILING_FROM_SHARE,
    ROUNDS_FROM,
    SLOWER_FROM,
    STRETCHED_FROM,
    VERDICT_FROM,
    beside_steps,
    between_steps,
    outside_capture,
    outside_of,
    quicker_compiles,
    said_with_the_verdict,
    stretched,
    with_between,
)
from tpuprof.model.steps.phase import ONE_OFF_COMPILE, Phase
from tpuprof.model.steps.table import HIGH, Steps, StepSource
from tpuprof.report.between import EVALUATION, OTHER_CALLS, OTHER_GRAPHS

CAPTURED = np.array([10, 10, 10], np.int64) * 10**9


def after(ms, steps=MIN_STEPS_AFTER, compiling=0.0):
    return AfterCapture(steps, 0, 0, compiling, ms * steps / 1_000 + compiling, True)


@pytest.mark.parametrize(("ratio", "said"), [(SLOWER_FROM - 0.01, 0), (SLOWER_FROM + 0.01, 1)])
def test_longer_steps_after_the_capture_are_said(ratio, said):
    found = outside_capture(CAPTURED, after(10 * ratio))
    assert len(found) == said
    assert not said or "the captured ones took 10.0 ms" in found[0]


@pytest.mark.parametrize(
    ("seconds", "compiling", "said"),
    [(0.51, 20, False), (0.49, 20, True), (0.49, 18, True), (0.49, 17, False), (0.0, 0, False)],
)
def test_compiles_that_take_less_after_the_capture_are_said(seconds, compiling, said):
    """Each of three captured steps compiles for a second; later steps as often, and for half as long."""
    later = AfterCapture(20, compiling, compiling, seconds * compiling, 20.0, True)
    found = quicker_compiles(100 * CAPTURED, later)
    assert bool(found) is said
    assert not said or "1.00 s in each captured step that compiled, and 490 ms in the" in found[0]
    assert not quicker_compiles(0 * CAPTURED, later)
    assert not quicker_compiles(100 * CAPTURED, None)


def test_compiles_are_left_out():
    assert not outside_capture(CAPTURED, after(10, compiling=0.5))
    assert outside_capture(CAPTURED, after(20, compiling=0.5))


@pytest.mark.parametrize(
    ("share", "known"),
    [(COMPILES_TO_SHARE - 0.01, True), (COMPILES_TO_SHARE, False), (1.0, False), (1.2, False)],
)
def test_where_nearly_all_time_after_the_capture_was_compiling_the_rest_is_unknown(share, known):
    """Compiles in each step, where the clock of compiles counted as much as the steps took, or more."""
    counted = AfterCapture(20, 20, 20, share * 2.0, 2.0, True)
    found = outside_of(CAPTURED, counted)
    assert (found is not None) is known
    assert bool(stretched(CAPTURED * 20, CAPTURED * 0, counted)) is known


@pytest.mark.parametrize(("steps", "known"), [(MIN_STEPS_AFTER, True), (MIN_STEPS_AFTER - 1, False)])
def test_steps_between_compiles_were_timed_apart(steps, known):
    """25 graphs of a preview took 96 of 165 s, and nothing said that steps with previews took a third longer."""
    counted = AfterCapture(
        steps + 1, 1, 25, 96.0, 100.0, True, stages=[Stage(0, 0, 0.0), Stage(1, steps, 0.02 * steps)]
    )
    found = outside_of(CAPTURED, counted)
    assert (found is not None) is known
    assert found is None or found.slower == pytest.approx(2.0)


@pytest.mark.parametrize("few", [None, after(100, MIN_STEPS_AFTER - 1)])
def test_few_steps_tell_nothing(few):
    assert not outside_capture(CAPTURED, few)


@pytest.mark.parametrize(("ratio", "said"), [(VERDICT_FROM - 0.01, False), (VERDICT_FROM + 0.01, True)])
def test_the_verdict_says_that_most_of_the_time_is_spent_on_what_the_capture_lacks(ratio, said):
    """Updates of a policy, say, of which eight are captured, and no rollout."""
    sentence = said_with_the_verdict(
        [None, outside_of(CAPTURED, after(10)), outside_of(CAPTURED, after(10 * ratio))]
    )
    assert bool(sentence) is said
    assert not said or "20 steps after the capture took 20.1 ms on average" in sentence
    assert "other work" not in sentence


def test_steps_on_a_machine_whose_cpus_are_taken_may_take_longer_for_that():
    sentence = said_with_the_verdict([outside_of(CAPTURED, after(40))], cpus_taken=True)
    assert sentence.endswith("is not in this capture, or is other work of the machine.")


@pytest.mark.parametrize(("steps_seconds", "said"), [(0.2, 0), (None, 1)])
def test_what_comes_after_the_last_step_is_no_step(steps_seconds, said):
    """Twenty steps of 10 ms, then an evaluation of 3 s; older notes do not tell the two apart."""
    found = replace(after(160), steps_seconds=steps_seconds)
    assert len(outside_capture(CAPTURED, found)) == said


def steps_with(*phases):
    """Three steps of 10 ms, one every 50 ms."""
    begin = np.array([0, 50, 100], np.int64) * 10**9
    found = Steps(StepSource.OPTIMIZER, HIGH, np.arange(3), begin, begin + CAPTURED)
    return replace(found, phases=tuple(phases))


def said_of_between(hosts, **facts):
    return with_between("", hosts, **facts)


def phase(start, end, name=EVALUATION, inside=False):
    return Phase(name, start * 10**9, end * 10**9, 4, "why", 1, inside)


@pytest.mark.parametrize(
    ("compiled", "said"),
    [(40 * COMPILING_FROM_SHARE, " (4.00 ms of it compiling)"), (40 * COMPILING_FROM_SHARE - 1, "")],
)
def test_compiles_of_the_first_evaluation_are_told(compiled, said):
    """ "evaluations took 1.49 s of the capture, and the steps 1.05 s": 1.09 s of it was one compile."""
    steps = steps_with(phase(10, 30), phase(60, 80))
    begin = np.array([12, 40], np.int64) * 10**9
    compiles = Spans(begin, begin + np.array([compiled * 10**9, 5 * 10**9], np.int64))
    text = said_of_between([(steps, None)], compiles=[compiles])
    assert f"took 40.0 ms of the capture{said}, and the steps" in text


def test_rollouts_between_updates_are_told_and_do_not_count_as_lacking():
    steps = steps_with(phase(10, 30), phase(60, 80))
    assert between_steps(steps) == 40 * 10**9
    assert "evaluations between them took 40.0 ms of the capture, and the steps 30.0 ms" in said_of_between(
        [(steps, None)]
    )
    # 23.3 ms from step to step in the capture: nothing is lacking in steps of 25 ms behind it.
    assert not outside_capture(CAPTURED, after(25), between_steps(steps))
    assert outside_capture(CAPTURED, after(25))


def test_beside_the_steps_are_evaluations_and_not_all_that_lies_between_steps():
    """Samples between two steps without an evaluation are of the loop: too few were left without them."""
    steps = steps_with(
        phase(-30, -10), phase(10, 30), phase(50, 55, inside=True), phase(40, 50, ONE_OFF_COMPILE)
    )
    assert [each.tolist() for each in beside_steps(steps)] == [[-30 * 10**9, 10**10], [-(10**10), 30 * 10**9]]
    assert beside_steps(steps_with()).total == 0


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (EVALUATION, "evaluations between them took 40.0 ms"),
        (OTHER_CALLS, "other calls (an evaluation or a checkpoint, say) between them took 40.0 ms"),
        (OTHER_GRAPHS, "other calls (an evaluation or a checkpoint, say) between them took 40.0 ms"),
    ],
)
def test_calls_that_train_nothing_are_told_too(name, what):
    assert what in said_of_between([(steps_with(phase(10, 30, name), phase(60, 80, name)), None)])


VERDICT = "Tracing-bound: the device idles. If not: Host-bound: more."


@pytest.mark.parametrize(
    ("name", "what"), [(EVALUATION, "evaluations, or a policy that acts,"), (OTHER_CALLS, "other calls")]
)
def test_what_comes_in_each_round_and_takes_most_of_the_time_comes_first(name, what):
    """REINFORCE acts for 65 % of its time: "Tracing-bound" alone was said of the 35 % between."""
    phases = [phase(at, at + 20, name) for at in (10, 60, 110)]
    assert with_between(VERDICT, [(steps_with(*phases), None)]) == (
        f"Most of the time lies between the training steps: {what} took 60.0 ms of the capture, and the steps 30.0 ms. "
        "The steps alone are tracing-bound: the device idles. If not: Host-bound: more."
    )
    unknown = with_between("Unknown: no event. If not: Host-bound: more.", [(steps_with(*phases), None)])
    assert unknown.endswith(" The steps alone: Unknown: no event. If not: Host-bound: more.")


@pytest.mark.parametrize(
    ("count", "length", "first"),
    [
        (ROUNDS_FROM, 30 / ROUNDS_FROM + 1, True),
        (ROUNDS_FROM, 30 / ROUNDS_FROM - 1, False),
        (ROUNDS_FROM - 1, 20, False),
    ],
)
def test_what_is_less_or_comes_seldom_comes_behind(count, length, first):
    phases = [phase(at, at + length) for at in (10, 60, 110)[:count]]
    assert with_between(VERDICT, [(steps_with(*phases), None)]).startswith("Most of the time") is first


@pytest.mark.parametrize(("share", "first"), [(1.1, False), (0.9, True)])
def test_an_evaluation_every_tenth_step_comes_behind(monkeypatch, share, first):
    monkeypatch.setattr(outside, "ROUND_FROM_SHARE", share)
    phases = [phase(at, at + 20) for at in (10, 60, 110)]
    assert with_between(VERDICT, [(steps_with(*phases), None)]).startswith("Most of the time") is first


@pytest.mark.parametrize(
    "phases",
    [
        [],
        [phase(10, 14), phase(60, 63)],
        [phase(10, 50, ONE_OFF_COMPILE)],
        [phase(0, 50, inside=True)],
        # Before the first step.
        [phase(-60, -10)],
    ],
)
def test_less_between_steps_is_not_worth_a_sentence(phases):
    assert said_of_between([(steps_with(*phases), None)]) == ""


@pytest.mark.parametrize(
    ("at_line", "of_steps", "ahead", "said"),
    [
        (21, 0, False, "52 %"),
        (20, 0, False, ""),
        # A line that the steps are at, too, such as `trainer.train()`; of a host that runs ahead it waits for them.
        (21, 60, False, ""),
        (21, 60, True, "52 %"),
    ],
)
def test_the_line_that_takes_most_of_the_time_between_is_named(at_line, of_steps, ahead, said):
    """900 answers, one by one, between ten steps: "Nothing: no rule failed" was all that was said of what to fix."""
    stacks = [
        Stack((), "", source, call)
        for source, call in [("a.py:40", "int(best)"), ("", ""), ("a.py:9", "step()")]
    ]
    # What is at which stack for how long (ms): steps of 10 ms at 0 and 100, what lies between at 10 and 60.
    pieces = [(2, 0, 10), (0, 10, 30), (1, 30, 60), (0, 60, 40 + at_line), (1, 40 + at_line, 80)]
    pieces += [(2, 100, 110)] if not of_steps else [(0, 100, 100 + of_steps)]
    rows, start, end = np.array(pieces, np.int64).T
    samples = HostSamples(start * 10**9, end * 10**9, np.zeros(len(rows), np.int64), rows, stacks)
    text = said_of_between([(steps_with(phase(10, 30), phase(60, 80)), samples)], runs_ahead=ahead)
    named = (
        f" For {said} of the time between them the training thread is at a.py:40 (int(best))." if said else ""
    )
    assert text.partition("the steps 30.0 ms.")[2] == named


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            ("main (a.py:9)",),
            " For 60 % of the time between them the training thread is in auc (a.py:55, 54).",
        ),
        # The steps are in it for as long: a trainer's own function.
        (("main (a.py:9)", "auc (a.py:55)"), ""),
    ],
)
def test_the_function_whose_lines_share_the_time_between_is_named(other, said):
    """AUC in NumPy every ten steps took 58 % of the capture, in two lines."""
    stacks = [
        Stack(("main (a.py:64)", f"auc (a.py:{line})"), "", f"a.py:{line}", "mean()") for line in (54, 55)
    ]
    stacks += [Stack(("main (a.py:64)",), "", "a.py:64", "predict()"), Stack(other, "", "a.py:9", "step()")]
    pieces = [(3, 0, 10), (0, 10, 20), (1, 20, 34), (2, 34, 50), (3, 100, 140)]
    rows, start, end = np.array(pieces, np.int64).T
    samples = HostSamples(start * 10**9, end * 10**9, np.zeros(len(rows), np.int64), rows, stacks)
    text = said_of_between([(steps_with(phase(10, 50)), samples)])
    assert text.partition("the steps 30.0 ms.")[2] == said


@pytest.mark.parametrize(
    ("loop", "ahead", "named"), [(21, True, True), (19, True, False), (21, False, False)]
)
def test_a_host_that_runs_ahead_is_in_the_function_while_the_device_still_trains(loop, ahead, named):
    """torchax: an evaluation of 689 ms was "see the verdict", which named no line: 93 % of that was in `evaluate`."""
    stacks = [
        Stack(("main (a.py:64)", f"evaluate (a.py:{line})"), "", f"a.py:{line}", "mean()")
        for line in (54, 55, 56)
    ]
    stacks += [Stack(("main (a.py:9)",), "", "a.py:9", "step()")]
    # Longer beside what lies between the steps (10 to 50 ms) than in it; the loop has more than a tenth, or less.
    pieces = [(0, 10, 25), (1, 25, 37), (2, 37, 50), (0, 100, 240), (3, 300, 300 + loop)]
    rows, start, end = np.array(pieces, np.int64).T
    samples = HostSamples(start * 10**9, end * 10**9, np.zeros(len(rows), np.int64), rows, stacks)
    text = said_of_between([(steps_with(phase(10, 50)), samples)], runs_ahead=ahead)
    assert ("in evaluate (a.py:54, 56, 55)" in text) is named


@pytest.mark.parametrize(("at_line", "of_all", "said"), [(11, 0.25, "28 %"), (10, 0.25, ""), (11, 0.3, "")])
def test_waits_between_steps_that_are_not_sampled_hide_no_line(monkeypatch, at_line, of_all, said):
    """Histograms of all weights, in half of 126 ms: the rest was waits for the device, and no line was named."""
    monkeypatch.setattr(outside, "OF_ALL_FROM", of_all)
    stacks = [Stack((), "", "board.py:18", "np.quantile(v, q)"), Stack((), "", "a.py:9", "step()")]
    pieces = [(1, 0, 10), (0, 10, 10 + at_line), (1, 30, 32), (1, 100, 110)]
    rows, start, end = np.array(pieces, np.int64).T
    samples = HostSamples(start * 10**9, end * 10**9, np.zeros(len(rows), np.int64), rows, stacks)
    text = said_of_between([(steps_with(phase(10, 50)), samples)])
    assert ("board.py:18 (np.quantile(v, q))" in text) is bool(said)
    assert said in text


NOTHING = np.zeros(3, np.int64)


@pytest.mark.parametrize(("ratio", "said"), [(STRETCHED_FROM - 0.01, 0), (STRETCHED_FROM + 0.01, 1)])
def test_captured_steps_that_recording_slows_down_are_reported(ratio, said):
    found = stretched(CAPTURED, NOTHING, after(10 / ratio))
    assert len(found) == said
    assert not said or "the median captured step took 10.0 ms, 1.3 times what steps take" in found[0]


def test_what_torch_compile_compiles_again_may_be_what_takes_longer():
    (said,) = stretched(CAPTURED, NOTHING, after(5), dynamo=True)
    assert (
        "torch.compile compiled again, recording slows the host down, or other work of the machine did"
        in said
    )


@pytest.mark.parametrize(
    ("captured", "compiles"),
    [
        # A checkpoint in one of them.
        ([10, 10, 90], [0, 0, 0]),
        # All of them compile.
        ([50, 60, 70], [40, 50, 60]),
    ],
)
def test_checkpoints_and_compiles_of_captured_steps_are_no_work_of_the_recording(captured, compiles):
    wall, made = (np.array(each, np.int64) * 10**9 for each in (captured, compiles))
    assert not stretched(wall, made, after(10))


@pytest.mark.parametrize(
    ("compiling", "said"),
    [
        (0.0, "5.00 ms on average without compiles. "),
        (1.0, "5.00 ms on average without compiles (15.0 ms with them). "),
    ],
)
def test_what_later_steps_take_with_their_compiles_is_said_beside_what_they_take_without(compiling, said):
    """A price of such steps is of steps with their compiles."""
    (found,) = stretched(CAPTURED, NOTHING, after(5, 100, compiling))
    assert said in found
    (slower,) = outside_capture(CAPTURED, after(25, 100, compiling))
    assert ("(35.0 ms with them)" in slower) is bool(compiling)


@pytest.mark.parametrize("few", [None, after(5, MIN_STEPS_AFTER - 1)])
def test_few_steps_after_the_capture_do_not_tell_what_recording_costs(few):
    assert not stretched(CAPTURED, NOTHING, few)


@pytest.mark.parametrize("marked", [True, False])
def test_a_capture_without_steps_has_none_to_compare_with_later_ones(read, marked):
    """TorchTPU: a recording of 542 ms while the first step compiled was "the median captured step, 27.6 times" others."""
    trace = TraceBuilder()
    main = trace.host().line("python")
    for number in range(20):
        main.event("aten::linear", 1_000 * number, 900)
        if marked:
            main.event("train_step", 1_000 * number, 1_000, _r=1, step_num=number)
    trace.host().line("python ").event("ExecutionTask::Run", 10, 20)
    host = replace(read(trace), after=after(0.5))
    assert (host.after_steps is host.after) == marked
    said = run_warnings(SimpleNamespace(hosts=[host], warnings=[], predicted=True, info={}))
    assert any("without tpuprof" in each for each in said) == marked


@pytest.mark.parametrize(
    ("calls", "changed", "said"),
    [
        (SLOWED_FROM_CALLS, {}, True),
        (SLOWED_FROM_CALLS - 1, {}, False),
        (97, {"after_steps": "counted"}, False),
        (97, {"steps": SimpleNamespace(source=StepSource.MARKERS)}, False),
        # A trace of another profiler, and ops that are no named functions.
        (97, {"records": []}, False),
        (97, {"eager": EagerDispatch(97.0, 97.0)}, False),
        (97, {"eager": None}, False),
    ],
)
def test_calls_that_recording_makes_slower_are_said_to_be_so_where_nothing_else_was_counted(
    calls, changed, said
):
    """An episode of 97 calls took 8.7 ms, its captured steps 19 ms, and 10.7 to 11.4 ms were said to be saved."""
    facts = {
        "eager": EagerDispatch(calls, calls, called=(("act", calls),)),
        "steps": SimpleNamespace(source=StepSource.CALLS),
        "after_steps": None,
        "records": ["a compile"],
    }
    notes = _unmarked_calls(SimpleNamespace(**{**facts, **changed}))
    assert [f"each of the {calls} calls of a step slower" in each for each in notes] == [True] * said


@pytest.mark.parametrize(
    ("calls", "said"), [(97.0, ""), (94.2, " (94 on average: not all steps hold as many)")]
)
def test_a_mean_of_calls_is_said_to_be_one(calls, said):
    """A step was one repetition of 97 calls in one place, and had 94 in another."""
    host = SimpleNamespace(
        eager=EagerDispatch(calls, calls, called=(("act", calls),)),
        steps=SimpleNamespace(source=StepSource.CALLS),
        after_steps=None,
        records=["a compile"],
    )
    (note,) = _unmarked_calls(host)
    assert f"each of the {calls:.0f} calls of a step slower{said}. How much" in note
