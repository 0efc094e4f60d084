"""Compiles of captured steps that never came again: the first evaluation, which compiles a graph per round."""

from dataclasses import replace

import pytest

from tests.rules.given import compiled, given
from tests.rules.situations import started
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
