"""What a finding says where few of the captured steps hold its cost."""

import pytest

from tests.rules.given import asleep, given, step
from tests.rules.situations import reads
from tpuprof.model.verdict_words import READS_IN_STEPS_SHARE
from tpuprof.rules.base import counterfactual, failed
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of, run_rules
from tpuprof.rules.shared.few_steps import OFTEN_FROM_STEPS, ONCE, ROUGHLY, of_few_steps
from tpuprof.simulate.change import Change

SLEEPS = "host:sleep"


def asleep_in(count):
    """Signals of eight steps, so many of which sleep for 80 ms."""
    rows = [step(index=at, **{SLEEPS: 80.0 * (at < count)}) for at in range(8)]
    return given(steps=rows, host_stacks=[asleep(10.0 * count)])


def said(count, title, price):
    return of_few_steps(failed(0.5, [], title=title, price=price, confidence="high"), asleep_in(count))


@pytest.mark.parametrize(
    ("count", "title"),
    [
        (8, "The device waits 50 % of each step for data"),
        (2, "The device waits 50 % of the steps' time (nearly all of it in 2 of 8 steps) for data"),
    ],
)
def test_a_mean_is_no_share_of_each_step(count, title):
    price = counterfactual(Change(host={SLEEPS: 0.0}))
    outcome = said(count, "The device waits 50 % of each step for data", price)
    assert outcome.title == title


def test_what_compiles_leave_is_of_all_steps_too():
    price = counterfactual(Change(host={SLEEPS: 0.0}))
    outcome = said(2, "The device waits 50 % of each step without its compiles for data", price)
    assert outcome.title == (
        "The device waits 50 % of the steps' time without their compiles (nearly all of it in 2 of 8 steps) for data"
    )


def test_so_is_the_share_that_stands_behind_a_title():
    outcome = failed(
        0.5,
        [],
        title="A read per step",
        at_stake=", up to 50 % of each step",
        price=counterfactual(Change(host={SLEEPS: 0.0})),
    )
    found = of_few_steps(outcome, asleep_in(2))
    assert found.title == "A read per step"
    assert found.at_stake == ", up to 50 % of the steps' time (nearly all of it in 2 of 8 steps)"


@pytest.mark.parametrize(
    ("count", "confidence", "least", "reason"),
    [
        (1, "low", Change(), ONCE),
        (3, "medium", Change(host={SLEEPS: 0.1}), ROUGHLY.format(steps="3 captured steps")),
        (OFTEN_FROM_STEPS, "high", Change(host={SLEEPS: 0.1}), ""),
    ],
)
def test_what_one_captured_step_held_may_not_come_back(count, confidence, least, reason):
    """Nobody knows whether it does: the price begins at nothing."""
    price = counterfactual(Change(host={SLEEPS: 0.0}), Change(host={SLEEPS: 0.1}))
    outcome = said(count, "It sleeps for 10 ms per step while the device idles", price)
    assert (outcome.confidence, outcome.price.least, outcome.reason) == (confidence, least, reason)
    assert f"per step (nearly all of it in {count} of 8 steps) while" in outcome.title


def test_a_rule_that_knows_better_is_not_doubted():
    """A queue of batches hides a slow loader in all steps but one."""
    price = counterfactual(Change(host={SLEEPS: 0.0}))
    known = of_few_steps(
        failed(0.5, [], title="50 % of each step", price=price), asleep_in(1), comes_back=True
    )
    assert (known.confidence, known.price) == ("medium", price)
    assert "nearly all of it in 1 of 8 steps" in known.title


@pytest.mark.parametrize(
    "price", [None, counterfactual(Change(unblock=True)), counterfactual(Change(host={SLEEPS: 1.0}))]
)
def test_a_finding_that_takes_out_something_else_stays_as_it_is(price):
    """What a read costs is not the time of a part: it is the overlap that it prevents."""
    assert said(1, "50 % of each step", price).title == "50 % of each step"


def test_a_rule_of_the_host_says_so():
    (found,) = run_rules(asleep_in(2), [find_rule("host-blocked")])
    assert "nearly all of it in 2 of 8 steps" in found.title


def test_reads_of_few_steps_are_not_said_to_cost_nothing():
    """Every fifth step logged histograms and read 68 tensors, 17 % of the time: "cost little or nothing"."""
    found = outcome_of(
        find_rule("device-to-host-sync"), given(**reads(READS_IN_STEPS_SHARE - 0.01, 0.5, 50.0))
    )
    assert (found.status, found.title) == ("passed", "Values are read from the device in few steps")
    assert "of the steps read a value" in found.reason
