"""What is said of gradients that no optimizer uses: the share, as far as it is sure, and how sure it is."""

import pytest

from tests.rules.given import given, steps
from tests.rules.situations import unused
from tpuprof.model.device.unused_gradients import UnusedWork
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of, run_rules

RULE = find_rule("unused-gradients")
SOME = UnusedWork(found={(64, 48): 1}, multiplies=True)
SPARE = UnusedWork(found={(64, 48): 2}, spare=1, multiplies=True)


@pytest.mark.parametrize(
    ("facts", "title"),
    [
        (
            {},
            "Gradients of 2 parameters of teacher (the largest 64 x 48) take 60 % of the device's time, and no optimizer uses them",
        ),
        (
            {"least": 0.2, "work": SPARE},
            "Gradients of 2 parameters of teacher (the largest 64 x 48) take 20 % to 60 % of the device's time, and no optimizer uses them",
        ),
        # The gradient that is not found may keep work alive.
        (
            {"work": SOME},
            "Gradients of 2 parameters of teacher (the largest 64 x 48) take at least 60 % of the device's time, and no optimizer uses them",
        ),
        (
            {"unused_work": None},
            "Gradients of 2 parameters of teacher (the largest 64 x 48) are added up, and no optimizer uses them",
        ),
    ],
)
def test_the_title_says_what_is_known_of_the_time(facts, title):
    assert outcome_of(RULE, given(**unused(0.6, **facts))).title == title


@pytest.mark.parametrize(
    ("facts", "confidence"),
    [
        ({"changes": 4}, "high"),
        # Made anew since training began, so somebody may take them once in a while.
        ({"changes": 3}, "medium"),
        ({"work": SPARE}, "medium"),
        ({"work": SOME}, "medium"),
        ({"unused_work": None}, "medium"),
        ({"unused_work": None, "changes": 3}, "low"),
    ],
)
def test_how_sure_it_is_depends_on_how_long_the_gradients_were_left_alone(facts, confidence):
    assert outcome_of(RULE, given(**unused(0.6, **facts))).confidence == confidence


def test_gradients_whose_time_is_unknown_have_a_finding_without_a_price():
    (found,) = run_rules(given(steps=steps(10, compute=100.0), **unused(unused_work=None)), [RULE])
    assert (found.status, found.savings) == ("failed", None)
    assert "do not tell which of their work" in found.reason
    assert [(each.value, each.unit) for each in found.evidence[:2]] == [(24576, "bytes"), (8, "times")]
