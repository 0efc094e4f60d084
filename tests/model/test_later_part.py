"""A second part of training behind the capture: the head of a model after all of it, by a loop of its own."""

from dataclasses import replace

import numpy as np
import pytest

from tpuprof.model.compile.later_part import RUNS_STEPS_FROM_SHARE, own_part, said_of_later_steps
from tpuprof.model.compile.recurrence import MIN_STEPS_AFTER, AfterCapture, CompilingLine, History, Stage
from tpuprof.model.compile.stages import OTHER_FROM
from tpuprof.model.host.samples import HostSamples
from tpuprof.model.host.stacks import Stack
from tpuprof.model.outside_capture import stretched

LOOP, MAIN = "loop (/u/stages.py:15)", "<module> (/u/main.py:{})"
PRETRAIN, FINETUNE, SYNC = (
    "pretrain (/u/stages.py:40)",
    "finetune (/u/stages.py:54)",
    "sync (/x/site-packages/t.py:1)",
)
# The innermost user's frame first, as notes of compiles have it.
COMPILED_IN = [LOOP, FINETUNE, MAIN.format(29), SYNC]


def sampled(*parts: tuple[list[str], int]) -> HostSamples:
    """Samples of these stacks, outermost frame first, each for so long."""
    ends = np.cumsum([length for _, length in parts])
    stacks = [Stack(tuple(frames), "", "", "") for frames, _ in parts]
    starts, rows = np.concatenate(([0], ends[:-1])), np.arange(len(parts))
    return HostSamples(starts, ends, np.zeros(len(parts), np.int64), rows, stacks)


TRAINS = sampled(([MAIN.format(28), PRETRAIN, LOOP], 100))


def history(before=25.0, later=18.0, steps=(19, 198), frames=COMPILED_IN, **lines) -> History:
    """Two stretches with a compile of 1 s each in the two steps between them (mean times in ms)."""
    first, last = steps
    stages = [
        Stage(0, first, first * before / 1e3),
        Stage(first + 1, 0, 0.0),
        Stage(first + 2, last, last * later / 1e3),
    ]
    took = sum(each.seconds for each in stages) + 2.0
    compiled = CompilingLine(2, 2, 2.0, list(frames), [first, first + 1])
    after = AfterCapture(
        first + 2 + last, 2, 2, 2.0, took, True, {LOOP: compiled, **lines}, steps_seconds=took, stages=stages,
        lengths={50: first + 2 + last},
    )  # fmt: skip
    return History(after=after)


def test_steps_of_another_loop_are_a_part_of_their_own():
    mine, later = own_part(history(), TRAINS)
    assert (mine.after.steps, mine.after.compiling_steps, mine.after.lines) == (19, 0, {})
    assert mine.after.took == pytest.approx(19 * 0.025)
    assert (later.first, later.steps, later.counted, later.quiet) == (19, 200, 219, 21)
    assert later.function == "finetune (/u/stages.py:54)"
    assert said_of_later_steps([None, later], []) == (
        " That is of the captured part of training: 200 of 219 steps after the capture run in finetune "
        "(/u/stages.py:54), since a compile, and take 18.0 ms each."
    )


def test_steps_of_another_part_do_not_say_that_recording_slows_the_host():
    """A first part of 25.9 ms was "1.4 times what steps take without tpuprof"."""
    walls, compiles = np.full(17, 26_000_000_000), np.zeros(17, np.int64)
    whole = history()
    assert stretched(walls, compiles, whole.after)
    assert not stretched(walls, compiles, own_part(whole, TRAINS)[0].after)


def test_a_short_part_is_not_in_the_verdict():
    _, later = own_part(history(steps=(30, 20)), TRAINS)
    assert later is not None
    assert not said_of_later_steps([later], [])


def unsplit(given: History, samples=TRAINS):
    mine, later = own_part(given, samples)
    return mine is given and later is None


def test_an_evaluation_is_inside_of_what_trains():
    assert unsplit(history(frames=["evaluate (/u/eval.py:9)", LOOP, PRETRAIN, MAIN.format(28), SYNC]))


def test_a_compile_of_functions_that_samples_saw_is_of_the_same_part():
    seen = sampled(([MAIN.format(28), PRETRAIN, LOOP], 95), ([MAIN.format(29), FINETUNE, LOOP], 5))
    assert unsplit(history(), seen)


@pytest.mark.parametrize(
    ("share", "split"), [(RUNS_STEPS_FROM_SHARE, True), (RUNS_STEPS_FROM_SHARE - 0.01, False)]
)
def test_a_function_runs_the_steps_that_holds_nearly_all_of_the_time(share, split):
    held = round(1_000 * share)
    seen = sampled(([MAIN.format(28), PRETRAIN], held), ([MAIN.format(28)], 1_000 - held))
    assert unsplit(history(frames=[FINETUNE, MAIN.format(28)]), seen) is not split


@pytest.mark.parametrize(
    ("later", "split"), [(25 / OTHER_FROM - 0.1, True), (25 / OTHER_FROM + 0.1, False), (40.0, False)]
)
def test_steps_that_are_not_clearly_shorter_may_hold_evaluations(later, split):
    assert unsplit(history(later=later), TRAINS) is not split


@pytest.mark.parametrize(("steps", "split"), [(MIN_STEPS_AFTER, True), (MIN_STEPS_AFTER - 1, False)])
def test_a_few_steps_do_not_tell_what_they_take(steps, split):
    assert unsplit(history(steps=(19, steps))) is not split


def test_compiles_on_both_sides_of_one_line_cannot_be_told_apart():
    both = CompilingLine(2, 2, 0.0, ["f (/u/f.py:1)"], [3, 19])
    assert unsplit(history(other=both))


def test_compiles_before_it_are_of_the_captured_part():
    early = CompilingLine(1, 1, 0.5, ["f (/u/f.py:1)"], [3])
    given = history(other=early)
    stages = [Stage(0, 3, 0.075), Stage(4, 15, 0.375), *given.after.stages[1:]]
    mine, later = own_part(
        replace(given, after=replace(given.after, compiling_steps=3, stages=stages)), TRAINS
    )
    assert later is not None
    assert (mine.after.compiling_steps, mine.after.graphs, mine.after.seconds) == (1, 1, 0.5)
    assert list(mine.after.lines) == ["other"]


def test_without_notes_or_samples_nothing_is_told_apart():
    assert unsplit(History())
    assert unsplit(history(), None)
    given = history()
    assert unsplit(replace(given, after=replace(given.after, steps=given.after.steps + 1)))
