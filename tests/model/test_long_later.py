"""Work that comes seldom: long steps after the capture, of which no captured one tells."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from tests.model.test_later_part import sampled
from tpuprof.model.compile.later_part import said_of_later_steps
from tpuprof.model.compile.recurrence import MIN_STEPS_AFTER, AfterCapture, LongSteps, read_after
from tpuprof.model.intervals import Spans
from tpuprof.model.long_later import (
    AT_ONE_PLACE,
    ELSEWHERE_FROM,
    FROM_SHARE,
    LONGER_BY,
    NEVER_BEFORE,
    SAMPLES_FROM,
    long_later,
)
from tpuprof.model.outside_capture import AS_LONG_FROM
from tpuprof.run_folder import NOTES, aftermath_name

MAIN, TRAIN, STEP = "<module> (/u/main.py:9)", "train (/u/main.py:{})", "step (/u/main.py:30)"
PREVIEW = "preview (/u/pictures.py:{})"
CAPTURED = sampled(([MAIN, TRAIN.format(17), STEP], 100))
WALL = np.full(8, 100 * 10**9, np.int64)


def stack(*frames):
    """As the process notes one: innermost first."""
    return "\n".join(reversed(frames))


def noted(long=10, of=100, long_s=0.6, numbers=None, stacks=None):
    """Steps of 100 ms, of which some take longer."""
    usual = 0.1
    if stacks is None:
        stacks = {
            stack(MAIN, TRAIN.format(20), PREVIEW.format(5)): 20,
            stack(MAIN, TRAIN.format(20), PREVIEW.format(6)): 30,
            stack(MAIN, TRAIN.format(17), STEP): 5,
        }
    seconds = usual * (of - long) + long_s * long
    known = LongSteps(of, seconds, usual, long, long_s * long, numbers or [], stacks)
    return AfterCapture(of + 16, 0, 0, 0.0, seconds + 1.6, True, steps_seconds=seconds + 1.6, long=known)


def test_long_steps_are_told_with_the_function_that_no_captured_step_is_in():
    found = long_later(WALL, noted(numbers=[9, 19, 29, 30, 39, 49]), CAPTURED)
    assert (found.steps, found.judged, found.every, found.held_by) == (10, 100, 10, 11)
    assert (found.took_ms, found.usual_ms) == (pytest.approx(600), pytest.approx(100))
    assert found.share == pytest.approx(5 / 15)
    assert (found.place, found.source) == ("in preview (/u/pictures.py:6, 5)", "/u/pictures.py:6")
    said = said_of_later_steps([None], [None, found])
    assert said == (
        " 10 of 100 steps after the capture take longer (600 ms, the usual step 100 ms, one in 10): 33 % of the time "
        "there. No captured step is as long. Beside the usual work, the training thread is in preview "
        "(/u/pictures.py:6, 5) then."
    )
    assert said_of_later_steps([None], [None]) == ""


def test_a_line_of_the_loop_is_told_where_that_calls_no_function_of_the_users():
    """`torch.save(...)` in the loop itself: the function is that of all steps, and the line is not."""
    stacks = {stack(MAIN, TRAIN.format(22), "save (/x/site-packages/torch/serialization.py:4)"): 9}
    found = long_later(WALL, noted(stacks=stacks), CAPTURED)
    assert (found.place, found.source) == ("at /u/main.py:22", "/u/main.py:22")
    assert found.held_by == 15


def test_where_steps_are_at_the_same_lines_a_steady_rate_tells_that_it_is_no_noise():
    usual = {stack(MAIN, TRAIN.format(17), STEP): 50}
    assert long_later(WALL, noted(stacks=usual), CAPTURED) is None
    found = long_later(WALL, noted(stacks=usual, numbers=[*range(3, 100, 10)]), CAPTURED)
    assert (found.every, found.place) == (10, "")
    assert found.text.endswith("No captured step is as long.")


@pytest.mark.parametrize(
    ("numbers", "every"),
    [
        ([4, 14, 24], 10),
        ([4, 14], 0),
        ([4, 14, 24, 25, 31], 10),
        ([4, 14, 24, 25, 31, 38], 0),
        ([4, 14, 24, 44], 10),
        ([4, 14, 24, 64], 0),
        ([4, 5, 6, 7, 8], 0),
        ([], 0),
    ],
)
def test_a_rate_is_steady_where_most_long_steps_keep_to_it(numbers, every):
    assert long_later(WALL, noted(numbers=numbers), CAPTURED).every == every


@pytest.mark.parametrize(
    "later",
    [
        None,
        replace(noted(), long=LongSteps()),
        replace(noted(), estimated=True),
        noted(long=1, long_s=3.0),
        noted(of=MIN_STEPS_AFTER - 1, long=4),
    ],
)
def test_nothing_is_said_where_too_little_was_counted(later):
    assert long_later(WALL, later, CAPTURED) is None


@pytest.mark.parametrize(("more", "told"), [(0.001, True), (-0.001, False)])
def test_long_steps_must_take_a_tenth_of_the_time(more, told):
    # Of 100 steps of 0.1 s, ten longer by x: x * 10 / (10 + x * 10) is the share.
    excess = (FROM_SHARE + more) / (1 - FROM_SHARE - more)
    assert (long_later(0.5 * WALL, noted(long_s=0.1 + excess), CAPTURED) is not None) is told


@pytest.mark.parametrize(("more", "told"), [(0.01, False), (-0.01, True)])
def test_a_captured_step_that_is_as_long_tells_more(more, told):
    wall = WALL // 4
    wall[0] = (AS_LONG_FROM + more) * 600e9
    assert (long_later(wall, noted(), CAPTURED) is not None) is told


def test_captured_steps_that_recording_slows_are_no_longer_ones():
    """Steps of 19 ms took 28 ms while they were recorded: that later ones took 29 ms on average was no news."""
    slowed = (1.7 * WALL).astype(np.int64)
    assert long_later(slowed, noted(numbers=[9, 19, 29, 30, 39, 49]), CAPTURED).every == 10


@pytest.mark.parametrize(("more", "told"), [(0.01, True), (-0.01, False)])
def test_captured_steps_must_be_shorter_for_the_lack_of_them(more, told):
    """A host that runs ahead waits for the device once in a while: the mean step is as long without that."""
    # The mean later step is 150 ms, of which long steps make 50.
    captured = 150 - (LONGER_BY + more) * 50
    # Most captured steps are as long as the usual later one: what waits for the device makes the mean.
    wall = WALL.copy()
    wall[:3] += int(8 / 3 * (captured - 100) * 10**9)
    assert (long_later(wall, noted(), CAPTURED) is not None) is told
    assert long_later(WALL, noted(), CAPTURED, between_ps=8 * 50 * 10**9) is None


@pytest.mark.parametrize(("more", "told"), [(0.0, True), (-0.01, False)])
def test_many_looks_must_be_where_captured_steps_never_are(more, told):
    """Work that comes first in a step leaves the usual part of it to be seen as well."""
    looks = round(100 * (ELSEWHERE_FROM + more))
    stacks = {
        stack(MAIN, TRAIN.format(20), PREVIEW.format(5)): looks,
        stack(MAIN, TRAIN.format(17), STEP): 100 - looks,
    }
    assert (long_later(WALL, noted(stacks=stacks), CAPTURED) is not None) is told


@pytest.mark.parametrize(("share", "told"), [(AT_ONE_PLACE, True), (AT_ONE_PLACE - 0.01, False)])
def test_most_of_these_must_be_at_one_place(share, told):
    looks = round(100 * share)
    stacks = {stack(MAIN, TRAIN.format(20), PREVIEW.format(5)): looks}
    stacks |= {stack(MAIN, TRAIN.format(30 + at), f"f{at} (/u/other.py:3)"): 1 for at in range(100 - looks)}
    assert (long_later(WALL, noted(stacks=stacks), CAPTURED) is not None) is told


@pytest.mark.parametrize(("looks", "told"), [(SAMPLES_FROM, True), (SAMPLES_FROM - 1, False)])
def test_one_look_alone_tells_nothing(looks, told):
    stacks = {stack(MAIN, TRAIN.format(20), PREVIEW.format(5)): looks}
    assert (long_later(WALL, noted(stacks=stacks), CAPTURED) is not None) is told


@pytest.mark.parametrize(("share", "told"), [(NEVER_BEFORE, True), (2 * NEVER_BEFORE, False)])
def test_what_captured_steps_do_as_well_is_no_reason(share, told):
    own = round(1000 * share)
    pictures = [MAIN, TRAIN.format(20), PREVIEW.format(5)]
    captured = sampled(([MAIN, TRAIN.format(17), STEP], 1000 - own), (pictures, own))
    later = noted(stacks={stack(*pictures): 20})
    assert (long_later(WALL, later, captured) is not None) is told


def test_without_samples_of_the_captured_steps_no_place_is_known():
    assert long_later(WALL, noted(), None) is None


@pytest.mark.parametrize("damaged", [False, True])
def test_notes_are_read_back_and_damaged_ones_are_reported(tmp_path, damaged):
    later = noted(numbers=[3, 13])
    row = asdict(later)
    if damaged:
        row["long"]["numbers"] = None
    (tmp_path / NOTES).mkdir()
    (tmp_path / NOTES / aftermath_name("vm.0")).write_text(json.dumps(row))
    problems = []
    assert read_after(tmp_path, "vm", problems) == (None if damaged else later)
    assert len(problems) == damaged


STEP_OF_PROFILER = "step (/env/lib/python3.11/site-packages/torch/profiler/profiler.py:838)"


@pytest.mark.parametrize(("others", "profiles"), [(9, True), (11, False)])
def test_torch_profiler_is_named_where_most_looks_have_it(others, profiles):
    """`profiler.step()` wrote what it had recorded: its line alone does not say that it is torch's."""
    line = TRAIN.format(62)
    looks = {
        f"{line}\n{MAIN}\nstop_trace (/env/lib/python3.11/site-packages/torch/profiler/profiler.py:255)\n{STEP_OF_PROFILER}": 6,
        f"{line}\n{MAIN}\n{STEP_OF_PROFILER}": 4,
        f"{line}\n{MAIN}\nsave (/env/lib/python3.11/site-packages/torch/serialization.py:7)": others,
    }
    found = long_later(WALL, noted(numbers=[9, 19, 29, 30, 39, 49], stacks=looks), CAPTURED)
    assert found.profiles is profiles
    assert found.place == "at /u/main.py:62" + (" (in torch.profiler)" if profiles else "")


def test_what_lies_between_captured_steps_is_no_place_of_theirs():
    """An evaluation was captured between two steps; later steps held it, and "evaluate" was a place seen before."""
    step, there = [MAIN, TRAIN.format(17), STEP], [MAIN, TRAIN.format(20)]
    samples = sampled(
        (step, 100), ([*there, PREVIEW.format(5)], 150), ([*there, PREVIEW.format(6)], 150), (step, 100)
    )
    samples = replace(samples, taken=np.array([50, 150, 250, 350, 450]), seen=np.array([0, 1, 1, 2, 3]))
    assert long_later(WALL, noted(), samples) is None
    own = samples.outside(Spans(np.array([100]), np.array([400])))
    assert (own.start.tolist(), own.seen.tolist()) == ([0, 400], [0, 3])
    assert long_later(WALL, noted(), own).place == "in preview (/u/pictures.py:6, 5)"
