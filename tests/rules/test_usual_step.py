"""Causes beside compiles, where captured steps compile far more often than those after the capture."""

from dataclasses import replace

import pytest

from tests.report import reports
from tests.rules.given import compiled, given, step
from tpuprof.model.compile.recurrence import (
    MIN_STEPS_AFTER,
    MIN_STEPS_LEFT,
    RETURNS_FROM_STEPS,
    AfterCapture,
    CompilingLine,
)
from tpuprof.report.schema import Savings
from tpuprof.rules.base import Outcome, Price
from tpuprof.rules.pricing import UNPRICED
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import _rank, _severity, _too_little, outcome_of
from tpuprof.rules.shared.recompiles import check_kinds
from tpuprof.rules.shared.returning_compiles import SELDOM_AFTER, may_be_the_last
from tpuprof.rules.thresholds import DOUBTED_RANKS_AT, PRICED_FROM_SHARE

LINE = "train (train.py:7)"


def after(steps, *compiling, seconds=1.0):
    """Steps after the capture, of 100 ms each without the compiles of one line; these take so many seconds in all."""
    lines = (
        {LINE: CompilingLine(len(compiling), len(compiling), seconds, [LINE], [*compiling])}
        if compiling
        else {}
    )
    spent = seconds if compiling else 0.0
    return AfterCapture(steps, len(compiling), len(compiling), spent, 0.1 * steps + spent, True, lines)


def captured(later, *, quiet=6, compiling=2, framework="torch_xla"):
    """Steps of 100 ms that trace for 55, and some that compile for 1.7 s besides."""
    usual = [step(100.0, at, tracing=55.0) for at in range(quiet)]
    slow = [step(1800.0, quiet + at, tracing=55.0, compile=1700.0) for at in range(compiling)]
    rows = [replace(compiled("graph", 1700.0, quiet + at), frames=[LINE]) for at in range(compiling)]
    mean = (100.0 * quiet + 1800.0 * compiling) / (quiet + compiling)
    return given(
        steps=usual + slow, step_ms=mean, step_compiles=rows, after_capture=later, framework=framework, bound="tracing",
        compile_share=1700.0 * compiling / (quiet + compiling) / mean, tracing_hidden_ms=1.0, records_if_noted=[],
        phases=[], uncut_steps=[], cutting_reads=[], explains_misses=False, fallbacks=[],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("later", "quiet", "usual"),
    [
        (after(200), 6, 100.0),
        # Two seconds of 22 compile.
        (after(200, 20, 120, seconds=2.0), 6, 100.0 * 22 / 20),
        # As many as in the capture: the mean step.
        (after(200, *range(0, 200, 4), seconds=85.0), 6, 525.0),
        (None, 6, 525.0),
        (after(MIN_STEPS_AFTER - 1), 6, 525.0),
        (after(200), MIN_STEPS_LEFT, None),
        (after(200), MIN_STEPS_LEFT - 1, "the mean"),
    ],
)
def test_the_usual_step_has_as_many_compiles_as_come_later(later, quiet, usual):
    signals = captured(later, quiet=quiet)
    expected = {None: 100.0, "the mean": signals.step_ms}.get(usual, usual)
    assert signals.usual_step_ms == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(("later", "status"), [(after(200), "failed"), (None, "passed")])
def test_tracing_is_judged_by_the_usual_step(later, status):
    """Two of eight steps compiled, the last ones of the start: "The device hardly waits for tracing", of 54 in 100 ms."""
    outcome = outcome_of(find_rule("tracing-bound"), captured(later))
    assert outcome.status == status
    if status == "failed":
        assert outcome.title == "The device waits 55 % of the usual step while the host traces"
        assert outcome.share == pytest.approx(0.55)


class Pricing:
    step_ms, usual_step_ms = 525.0, 100.0


@pytest.mark.parametrize(
    ("share", "little"), [(PRICED_FROM_SHARE - 0.01, True), (PRICED_FROM_SHARE + 0.01, False)]
)
def test_what_a_fix_saves_is_judged_by_the_usual_step(share, little):
    assert _too_little(Savings(100 * share, 100 * share, "counterfactual"), Pricing(), 1.0) is little


@pytest.mark.parametrize(("of_step", "severity"), [(1.0, 0.2), (0.1, 20 / 52.5)])
def test_findings_are_ranked_by_what_they_save_of_one_step(of_step, severity):
    """Compiles that hardly return are priced of a step with few of them, and stood before all others."""
    outcome = Outcome("failed", share=0.9, price=Price(of_step=of_step))
    assert _severity(outcome, Savings(10.0, 30.0, "counterfactual"), Pricing()) == pytest.approx(severity)


@pytest.mark.parametrize(
    ("later", "last"),
    [
        (after(200, 40), True),
        (after(200, *range(40, 40 + 10 * (RETURNS_FROM_STEPS - 1), 10)), True),
        (after(200, *range(40, 40 + 10 * RETURNS_FROM_STEPS, 10)), False),
        # None came: what returns is told by other signs.
        (after(200), False),
        (None, False),
        (after(MIN_STEPS_AFTER - 1, 4), False),
        # Two of eight in the capture, two of `MIN_STEPS_AFTER` later: as often as half of that.
        (after(MIN_STEPS_AFTER, 4, 14), True),
    ],
)
def test_a_few_compiles_after_the_capture_may_be_the_last_ones(later, last):
    signals = captured(later)
    assert may_be_the_last(signals, signals.step_compiles) is last


@pytest.mark.parametrize(("steps", "last"), [(65, True), (64, False)])
def test_they_come_far_more_seldom_than_in_the_capture(steps, last):
    assert SELDOM_AFTER * 2 / 32 == 2 / 64
    signals = captured(after(steps, 3, 9), quiet=30)
    assert may_be_the_last(signals, signals.step_compiles) is last


def test_compiles_that_may_be_the_last_have_a_price_that_begins_at_nothing():
    outcome = check_kinds(captured(after(100, 40, 70, seconds=4.0)), ("graph",))
    assert (outcome.status, outcome.confidence) == ("failed", "low")
    assert outcome.title.startswith(
        "2 compiles in 8 steps take 81 % of the time; it is unknown whether compiles come"
    )
    assert outcome.price.least.host["compile"] == pytest.approx(1.0)


@pytest.mark.parametrize("seconds", [4.0, 100.0])
def test_a_compile_that_takes_less_after_the_capture_is_priced_by_that(seconds):
    """Ten of a hundred steps against two of eight: 0.4 as often, and each may take less where nothing is recorded."""
    outcome = check_kinds(captured(after(100, *range(5, 100, 10), seconds=seconds)), ("graph",))
    rate, cost = 0.4, seconds / 100 / (2 * 1.7 / 8)
    assert outcome.price.most.host["compile"] == pytest.approx(1 - min(rate, cost), abs=0.01)


@pytest.mark.parametrize(
    ("reason", "counts"),
    [
        (f"{UNPRICED}the replay gives 1.56 ms per step", DOUBTED_RANKS_AT),
        ("no step is shorter without them", 1.0),
    ],
)
def test_what_cannot_be_replayed_is_doubtful_with_a_price_and_without(reason, counts):
    """Reads of a library, 35 % without a price, stood before ops of an environment, 54 % with an upper bound."""
    found = reports.finding(severity=0.35, savings=None, reason=reason, confidence="medium")
    assert _rank(found, {}, set()) == pytest.approx(0.35 * counts)
