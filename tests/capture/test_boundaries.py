"""Where a step ends while the program runs: from optimizer calls and graph cuts."""

import pytest

from tpuprof.capture.boundaries import CUT, CUTS_WITHOUT_CALL, OPTIMIZER, OptimizerRound, StepBoundaries


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
        # A warm-up with more critics than later: the round is learned again.
        ("D" * 20 + "G" + "DDDDDG" * 3, "|" * 21 + ".....|" * 3),
    ],
)
def test_the_round_of_several_optimizers(calls, ends):
    assert rounds(calls) == ends


def test_a_round_that_is_disturbed_once_is_found_again():
    assert rounds("DG" * 5 + "D" + "DG" * 8).endswith(".|.|.|")


def follow(events):
    """Feed events (o: the optimizer, c: a cut, n: a cut with gradients off); marks where a step ended."""
    boundaries = StepBoundaries()
    marks = ""
    for event in events:
        ended = boundaries.optimizer_called(0) if event == "o" else boundaries.cut(gradients=event == "c")
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


@pytest.mark.parametrize(("cuts", "origin"), [(CUTS_WITHOUT_CALL, OPTIMIZER), (CUTS_WITHOUT_CALL + 1, CUT)])
def test_updates_by_other_means_bring_cuts_back(cuts, origin):
    assert follow("oc" + "c" * cuts)[1].origin == origin


def test_a_second_optimizer_makes_rounds_longer():
    boundaries = StepBoundaries()
    grew = []
    for number in (0, 0, 0, 1, 0, 0, 0, 1):
        boundaries.optimizer_called(number)
        grew.append(boundaries.grew)
        boundaries.cut(gradients=True)
    assert grew == [False, False, False, True, False, False, False, False]
    assert boundaries.calls_per_step == 4


def test_the_first_optimizer_call_after_counted_cuts_begins_training():
    boundaries = StepBoundaries()
    boundaries.optimizer_called(1)
    assert not boundaries.first
    boundaries = StepBoundaries()
    assert [boundaries.cut(gradients=True) for _ in range(3)] == [True] * 3
    boundaries.optimizer_called(1)
    assert boundaries.first
    boundaries.cut(gradients=True)
    boundaries.optimizer_called(1)
    assert not boundaries.first
