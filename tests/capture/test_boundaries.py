"""Where a step ends while the program runs: from optimizer calls and graph cuts."""

import random
from functools import partial
from operator import eq

import pytest

from tpuprof.capture.boundaries import (
    COMPILED,
    CUT,
    CUTS_WITHOUT_CALL,
    OPTIMIZER,
    OptimizerRound,
    StepBoundaries,
)


def rounds(calls):
    """Where rounds end, as a string of one mark a call."""
    following = OptimizerRound()
    return "".join("|" if following.add("DGE".index(call)) else "." for call in calls)


@pytest.mark.parametrize(
    ("calls", "ends"),
    [
        ("DDDD", "||||"),
        ("DGDGDGDG", "||.|.|.|"),
        ("DGEDGEDGE", "|||..|..|"),
        ("DDDDDGDDDDDGDDDDDG", "||||||.....|.....|"),
        # The critic is trained until it is good enough.
        ("DDDDDGDDDDDDGDDDGDDDDGDDDDDG", "||||||......|...|....|.....|"),
        ("DGGDGGDGGDGGDGG", "|||.||..|..|..|"),
        # A warm-up with more critics than later: the round is learned again.
        ("D" * 20 + "G" + "DDDDDG" * 3, "|" * 21 + ".....|" * 3),
    ],
)
def test_the_round_of_several_optimizers(calls, ends):
    assert rounds(calls) == ends


def test_rounds_that_vary_end_with_the_optimizer_that_came_last_and_another_order_is_found_again():
    rng = random.Random(0)
    critics = [rng.randint(3, 6) for _ in range(50)]
    calls = "".join("D" * each + "G" for each in critics)
    following = OptimizerRound()
    ended = [following.add("DG".index(call)) for call in calls]
    assert [call for call, each in zip(calls, ended, strict=True) if each][critics[0] :] == ["G"] * 50
    assert following.varies
    # Then only the critic is trained.
    assert sum(following.add(0) for _ in range(200)) > 100


@pytest.mark.parametrize("rounds_before", [5, 30])
def test_one_that_is_called_once_does_not_keep_rounds_from_ending(rounds_before):
    """A graph of an evaluation, say: it makes a round of all calls until then, and is not waited for much longer."""
    calls = "DGE" * rounds_before + "X" + "DGE" * 3 * rounds_before
    following = OptimizerRound()
    marks = "".join("|" if following.add("DGEX".index(call)) else "." for call in calls)
    assert marks.endswith("..|" * rounds_before)
    assert not following.varies


def test_a_round_that_is_disturbed_once_is_found_again():
    assert rounds("DG" * 5 + "D" + "DG" * 8).endswith(".|.|.|")


def follow(events):
    """Feed events (o: the optimizer, c: a cut, n: a cut with gradients off); marks where a step ended."""
    boundaries = StepBoundaries()
    marks = ""
    for event in events:
        ended = (
            boundaries.optimizer_called(0)
            if event == "o"
            else boundaries.cut(gradients=partial(eq, event, "c"))
        )
        marks += "|" if ended else "."
    return marks, boundaries


def test_a_step_ends_at_the_cut_after_the_call():
    assert follow("occocco")[0] == ".|..|.."


def test_before_any_optimizer_each_cut_ends_a_step():
    marks, boundaries = follow("ccc")
    assert marks == "|||"
    assert boundaries.origin == CUT


def test_without_cuts_the_calls_end_steps():
    assert follow("ooooo")[0] == ".||||"


def test_an_evaluation_does_not_bring_cuts_back():
    marks, boundaries = follow("oc" + "n" * 10 * CUTS_WITHOUT_CALL + "oc")
    assert boundaries.origin == OPTIMIZER
    assert marks.count("|") == 2


@pytest.mark.parametrize(
    ("cuts", "origin"), [(2 * CUTS_WITHOUT_CALL, OPTIMIZER), (2 * CUTS_WITHOUT_CALL + 1, CUT)]
)
def test_updates_by_other_means_bring_cuts_back(cuts, origin):
    assert follow("oc" + "c" * cuts)[1].origin == origin


def test_whether_a_cut_trains_is_asked_only_behind_many_without_a_call():
    boundaries, asked = StepBoundaries(), []
    boundaries.optimizer_called(0)
    for _ in range(CUTS_WITHOUT_CALL + 1):
        boundaries.cut(gradients=lambda: bool(asked.append(0)))
    assert not asked
    boundaries.cut(gradients=lambda: bool(asked.append(0)))
    assert asked


def test_a_second_optimizer_makes_rounds_longer():
    boundaries = StepBoundaries()
    grew = []
    for number in (0, 0, 0, 1, 0, 0, 0, 1):
        boundaries.optimizer_called(number)
        grew.append(boundaries.grew)
        boundaries.cut(gradients=lambda: True)
    assert grew == [False, False, False, True, False, False, False, False]
    assert boundaries.calls_per_step == 4


def test_the_first_optimizer_call_after_counted_cuts_begins_training():
    boundaries = StepBoundaries()
    boundaries.optimizer_called(1)
    assert not boundaries.first
    boundaries = StepBoundaries()
    assert [boundaries.cut(gradients=lambda: True) for _ in range(3)] == [True] * 3
    boundaries.optimizer_called(1)
    assert boundaries.first
    boundaries.cut(gradients=lambda: True)
    boundaries.optimizer_called(1)
    assert not boundaries.first


def compiled(calls):
    """Where steps end: A, B and C are graphs of compiled functions, o an optimizer's call, c a cut that ran a graph."""
    boundaries, marks, first = StepBoundaries(), "", []
    for number, call in enumerate(calls):
        if call == "o":
            ends = boundaries.optimizer_called(1)
        elif call == "c":
            ends = boundaries.cut(gradients=lambda: True)
        else:
            ends = boundaries.compiled_call(call.encode())
        first += [number] if boundaries.first else []
        marks += "|" if ends else "."
    return marks, first, boundaries


@pytest.mark.parametrize("word", ["A", "ABC"])
def test_rounds_of_compiled_functions_end_steps_where_nothing_else_tells(word):
    # torch.compile cuts by itself where it compiles.
    marks, first, boundaries = compiled("cc" + word * 20)
    assert boundaries.origin == COMPILED
    assert marks[: 2 + len(word)] == "||" + "." * len(word)
    last = marks[-6 * len(word) :]
    assert last == ("." * (len(word) - 1) + "|") * 6
    # The cuts before were no steps: capturing begins anew, once.
    assert len(first) == 1
    # One more compile is no step.
    assert boundaries.cut(gradients=lambda: True) is False and boundaries.origin == COMPILED


@pytest.mark.parametrize("loop", ["ABc", "ABCDEFABCDEFc", "ABABABABc", "ABoc", "Aoc", "ABABABABoc"])
def test_a_loop_that_cuts_or_calls_an_optimizer_has_its_steps_from_those(loop):
    marks, _, boundaries = compiled(loop * 12)
    assert boundaries.origin == (OPTIMIZER if "o" in loop else CUT)
    assert marks.endswith(("." * (len(loop) - 1) + "|") * 8)


def test_an_optimizer_that_is_called_later_takes_over():
    _, first, boundaries = compiled("c" + "A" * 12 + "o")
    assert boundaries.origin == OPTIMIZER and first[-1] == 13
    assert boundaries.compiled_call(b"A") is False


def test_cuts_alone_come_back_where_compiled_functions_are_called_no_more():
    marks, _, boundaries = compiled("A" * 12 + "c" * (2 * CUTS_WITHOUT_CALL + 3))
    assert boundaries.origin == CUT and marks.endswith("||")
