"""Places at which a program without steps is after the capture, and never was in it."""

from dataclasses import replace

import numpy as np
import pytest

from tests.model.test_later_part import sampled
from tpuprof.model.later_places import LOOKS_FROM, STRETCHES_FROM, place_of
from tpuprof.model.long_later import FROM_SHARE
from tpuprof.own_events import LOOK_COMPILES, LOOK_WORKS

MAIN, TRAIN, STEP = "<module> (/u/main.py:9)", "train (/u/main.py:{})", "step (/u/main.py:30)"
EVALUATE, SCORE = "evaluate (/u/main.py:{})", "score (/u/main.py:60)"


def recorded(*stacks):
    """Samples of a recording: (frames, how often they were seen)."""
    found = sampled(*stacks)
    seen = np.concatenate([np.full(times, row, np.int64) for row, (_, times) in enumerate(stacks)])
    return replace(found, seen=seen, taken=np.arange(len(seen)))


CAPTURED = recorded(([MAIN, TRAIN.format(17), STEP], 100))


def stack(*frames):
    """As the process notes one: innermost first."""
    return "\n".join(reversed(frames))


STACKS = [
    stack(MAIN, TRAIN.format(17), STEP),
    stack(MAIN, TRAIN.format(20), EVALUATE.format(40)),
    stack(MAIN, TRAIN.format(20), EVALUATE.format(41), SCORE),
    stack(MAIN, TRAIN.format(22)),
]


def noted(*stretches):
    return {
        "looks": sum(each[2] for each in stretches),
        "seconds": 1.0,
        "stacks": STACKS,
        "stretches": [list(each) for each in stretches],
    }


def times(count, *stretches):
    return place_of(noted(*stretches * count), CAPTURED)


def test_a_function_that_comes_again_and_again_is_named_with_its_line():
    found = times(4, (0, 0, 20), (1, 0, 10))
    assert (found.share, found.stretches) == (pytest.approx(1 / 3), 4)
    assert (found.place, found.source) == ("in evaluate (/u/main.py:40)", "/u/main.py:40")
    assert found.text.startswith(
        " The training thread is in evaluate (/u/main.py:40) for 33 % of the time after the capture, in 4 stretches, "
        "and never was while it was recorded."
    )


def test_the_innermost_function_that_has_most_of_it_is_named():
    assert times(4, (0, 0, 20), (1, 0, 2), (2, 0, 8)).place == "in score (/u/main.py:60)"
    assert times(4, (0, 0, 20), (1, 0, 8), (2, 0, 2)).place == "in evaluate (/u/main.py:40)"


def test_a_line_of_the_function_that_trains_is_named_where_it_is_in_no_other():
    found = times(4, (0, 0, 20), (3, 0, 10))
    assert (found.place, found.source) == ("at /u/main.py:22", "/u/main.py:22")


@pytest.mark.parametrize(("looks", "said"), [(10, True), (9, False)])
def test_a_small_share_is_nothing(looks, said):
    of = round(10 / FROM_SHARE)
    assert bool(times(4, (0, 0, of - looks), (1, 0, looks))) == said


@pytest.mark.parametrize(("count", "said"), [(STRETCHES_FROM, True), (STRETCHES_FROM - 1, False)])
def test_what_does_not_come_again_is_nothing(count, said):
    assert bool(times(count, (0, 0, 50), (1, 0, 50))) == said


@pytest.mark.parametrize(("looks", "said"), [(LOOKS_FROM, True), (LOOKS_FROM - 5, False)])
def test_few_looks_say_nothing(looks, said):
    assert bool(times(5, (0, 0, looks // 10), (1, 0, looks // 10))) == said


def test_waits_for_the_device_are_no_work_at_a_place():
    assert times(4, (0, 0, 20), (1, 1, 10)) is None
    found = times(4, (0, 0, 20), (1, 1, 4), (1, 0, 6))
    assert (found.share, found.stretches) == (pytest.approx(0.2), 4)


def test_a_place_that_compiles_is_work_at_it():
    """A look that sees a compile is no wait: the third kind was taken for one."""
    found = times(4, (0, LOOK_WORKS, 20), (1, LOOK_COMPILES, 10))
    assert (found.share, found.stretches) == (pytest.approx(1 / 3), 4)


def test_an_export_at_the_end_is_left_out():
    short = noted(*((0, 0, 100), (1, 0, 1)) * 3, (1, 0, 500))
    assert place_of(short, CAPTURED) is None


def test_places_of_the_recording_are_nothing_new():
    assert times(4, (0, 0, 20)) is None
    assert place_of(noted(*((0, 0, 20), (1, 0, 10)) * 4), None) is None
    also = recorded(([MAIN, TRAIN.format(17), STEP], 95), ([MAIN, TRAIN.format(20), EVALUATE.format(40)], 5))
    assert place_of(noted(*((0, 0, 20), (1, 0, 10)) * 4), also) is None


def test_a_line_that_calls_the_step_is_seen_in_the_recording_though_no_time_of_it_is_sampled():
    """A call of a jitted function is an event, and samples are of the time beside: "and never was" was said of it."""
    calling = replace(recorded(([MAIN, TRAIN.format(20)], 99), ([MAIN, TRAIN.format(17), STEP], 1)))
    only_beside = replace(calling, stack=np.full_like(calling.stack, 1))
    looks = noted(*((3, 0, 20), (0, 0, 1)) * 4)
    looks["stacks"] = [STACKS[0], STACKS[1], STACKS[2], stack(MAIN, TRAIN.format(20))]
    assert place_of(looks, only_beside) is None


@pytest.mark.parametrize(("looks", "said"), [(LOOKS_FROM, True), (LOOKS_FROM - 1, False)])
def test_few_looks_of_the_recording_say_nothing_either(looks, said):
    short = recorded(([MAIN, TRAIN.format(17), STEP], looks))
    assert bool(place_of(noted(*((0, 0, 20), (1, 0, 10)) * 4), short)) == said


@pytest.mark.parametrize(
    "damaged", [{"looks": "x"}, {"looks": 99}, {"looks": 99, "stacks": ["f (a:1)"], "stretches": [[7, 0, 1]]}]
)
def test_damaged_notes_say_nothing(damaged):
    assert place_of(damaged, CAPTURED) is None
