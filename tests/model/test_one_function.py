"""A loop that nothing marks, which stops for an evaluation: the evaluation's calls are no steps."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.model.steps import calls
from tpuprof.model.steps.one_function import PHASE_FROM_CALLS

TRAIN, EVALUATE = 2000, 700


def loop(steps=20, batches=30, rounds=2, train=TRAIN):
    """Rounds of training steps (2 ms each) and of an evaluation's batches (0.7 ms each); a few steps more at the end."""
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("tf_XLAEigen/1")
    at = 0
    for number in range(rounds + 1):
        for _ in range(steps if number < rounds else 5):
            python.event("PjitFunction(train_step)", at, 100)
            run.event("ThunkExecutor::Execute", at + 50, train - 100)
            at += train
        for _ in range(batches if number < rounds else 0):
            python.event("PjitFunction(eval_step)", at, 100)
            run.event("ThunkExecutor::Execute", at + 50, EVALUATE - 100)
            at += EVALUATE
    return trace


def test_steps_are_calls_of_the_function_with_most_of_the_time(analyze):
    report = analyze(loop())
    # The last call ends the trace.
    assert report.steps.count in (44, 45)
    assert report.steps.method == "inferred from calls of jitted functions"
    assert report.steps.median_ms == pytest.approx(2.0)
    assert max(row.wall_ms for row in report.steps.per_step) == pytest.approx(2.0)
    assert report.steps.confidence == "low" and "one call of train_step" in report.steps.note
    assert [(row.name, row.duration_ms) for row in report.phases] == [
        ("other calls", pytest.approx(21.0))
    ] * 2
    assert "30 calls in a row" in report.phases[0].evidence and "eval_step" in report.phases[0].evidence


@pytest.mark.parametrize(("batches", "phases"), [(PHASE_FROM_CALLS - 1, 0), (PHASE_FROM_CALLS, 2)])
def test_a_few_other_calls_are_no_phase(analyze, monkeypatch, batches, phases):
    monkeypatch.setattr(calls, "find_repetition", lambda _labels: None)
    report = analyze(loop(batches=batches))
    assert len(report.phases) == phases
    assert report.steps.note.startswith("no step marker in the trace: a step is one call of") == bool(phases)


def test_an_evaluation_that_takes_most_of_the_time_is_not_called_a_step_of_training_for_sure(analyze):
    report = analyze(loop(train=300))
    assert report.steps.confidence == "low"
