"""Compiles that never come again: the first evaluation, and a start that the captured steps lie in."""

from dataclasses import replace

import pytest

from tests.rules.given import compiled, given
from tests.rules.situations import in_the_start, started
from tpuprof.model.steps.phase import ONE_OFF_COMPILE
from tpuprof.report.sections import PhaseRow
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.thresholds import SLOW_COMPILE_FROM_SECONDS

NS_PER_S = 1_000_000_000


def outcome(seconds, *, phase=ONE_OFF_COMPILE, at=1.0, start=0.0, host="host0"):
    """Five graphs of a read, and two of another line, in a step that is left out; and what compiled at the start."""
    rows = [
        replace(
            compiled("graph", 1_000 * seconds / 7, None),
            start_ns=int((at + number) * NS_PER_S),
            frames=["__bool__ (eval.py:83)" if number < 5 else "cpu (eval.py:108)"],
        )
        for number in range(7)
    ]
    phases = [PhaseRow(phase, host, 0, 60_000.0, 0, "why", 15)]
    situation = {**started(start), "phases": phases, "compiles_outside_steps": rows}
    return outcome_of(find_rule("slow-compile"), given(**situation))


@pytest.mark.parametrize(("more", "status"), [(0.1, "failed"), (-0.1, "passed")])
def test_a_first_evaluation_that_compiles_for_long_is_a_finding(more, status):
    """A validation with `if done.all(): break` took 23 of a run's 39 s, and stood in a line of phases alone."""
    found = outcome(SLOW_COMPILE_FROM_SECONDS + more)
    assert found.status == status
    if status == "failed":
        assert (
            found.title
            == "Training waited 20 s for 7 compiles that never came again, most of it at eval.py:83"
        )
        assert found.cases == {"later"}
        assert found.evidence[0].source == "eval.py:83"
        assert found.price.savings.start_high_s == pytest.approx(SLOW_COMPILE_FROM_SECONDS + more)
        assert (found.price.savings.per, found.price.savings.start_low_s) == ("start", 0.0)


@pytest.mark.parametrize(
    "other",
    [{"phase": "other calls"}, {"at": 100.0}, {"host": "host1"}],
    ids=["what comes again", "outside", "another host's"],
)
def test_other_compiles_outside_of_steps_are_none(other):
    assert outcome(2 * SLOW_COMPILE_FROM_SECONDS, **other).status == "passed"


def test_a_slow_start_comes_first():
    found = outcome(2 * SLOW_COMPILE_FROM_SECONDS, start=SLOW_COMPILE_FROM_SECONDS)
    assert found.title == "Training waited 20 s for the compiler before it was steady"


def start(seconds, **other):
    return outcome_of(find_rule("slow-compile"), given(**in_the_start(seconds, **other)))


@pytest.mark.parametrize(("more", "status"), [(0.1, "failed"), (-0.1, "passed")])
def test_a_start_that_the_capture_lies_in_counts_whole(more, status):
    """A queue with 64 positions compiled for 66 of 68 s: before, in and after the captured steps. No rule failed."""
    found = start((SLOW_COMPILE_FROM_SECONDS + more - 1.0) / 7)
    assert found.status == status
    if status == "failed":
        seconds = SLOW_COMPILE_FROM_SECONDS + more
        said = "7 of the first 7 steps compiled a graph each, as a number in the graph changed at moco.py:7"
        assert found.title == f"Training waited 20 s for the compiler before it was steady: {said}"
        assert (found.cases, found.evidence[0].source) == ({"many"}, "moco.py:7")
        savings = found.price.savings
        assert (savings.start_low_s, savings.start_high_s) == pytest.approx(
            (seconds * 5 / 7, seconds * 6 / 7)
        )
        # 10,000 later steps of 20 ms.
        assert found.share == pytest.approx(seconds / (seconds + 200.0))


def test_what_a_few_programs_of_a_start_save_is_unknown():
    found = start(SLOW_COMPILE_FROM_SECONDS, kind="graph", later=0)
    assert found.title == "Training waited 61 s for the compiler before it was steady"
    assert found.cases == {"large"}
    assert found.price.savings.start_low_s == 0.0


@pytest.mark.parametrize(
    "other", [{"returns": "yes"}, {"returns": "unknown"}, {"quiet": 3, "returns": "yes"}]
)
def test_compiles_that_may_come_again_are_no_start(other):
    found = start(SLOW_COMPILE_FROM_SECONDS, **other)
    assert found.status == "passed"
