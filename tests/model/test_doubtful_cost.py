"""A verdict that names a cost is weaker where no price confirms the cost."""

from dataclasses import replace

import pytest

from tpuprof.analysis.sections.doubtful_cost import (
    BEGINS_FROM_SHARE,
    SURER_FROM_SHARE,
    said_beside,
    surer_bound,
    weakened,
)
from tpuprof.model.step_times import StepTimes
from tpuprof.report.schema import Finding, Savings, Verdict
from tpuprof.rules.thresholds import FAR_BELOW
from tpuprof.units import format_ms_range

TIMES = StepTimes(wall=100.0, parts={}, busy=70.0, host_work=30.0, reads_share=1.0)
SYNC = Verdict("sync", 0.3, "Sync-bound: a read costs up to 30 % of each step.")
LEAST = BEGINS_FROM_SHARE * TIMES.wall


def finding(rule="device-to-host-sync", status="failed", low=None, reason="", high=30.0):
    savings = Savings(low, high, "counterfactual") if low is not None else None
    return Finding(rule, "host", status, "", "", savings=savings, reason=reason)


@pytest.mark.parametrize("low", [LEAST, 10.0])
def test_a_price_that_begins_at_something_leaves_the_verdict(low):
    assert weakened(SYNC, [finding(low=low)], TIMES) == SYNC


def test_a_sure_price_far_below_the_cost_is_stated_beside_it():
    far = FAR_BELOW * SYNC.share * TIMES.wall
    said = weakened(SYNC, [finding(low=5.0, high=far - 0.1)], TIMES)
    assert said.sentence == (
        "Sync-bound: a read costs up to 30 % of each step. A replay without the read makes a step only 5.00 ms to "
        "14.9 ms shorter."
    )
    assert weakened(SYNC, [finding(low=5.0, high=far)], TIMES) == SYNC


@pytest.mark.parametrize("low", [0.0, LEAST - 0.01])
def test_a_price_that_begins_at_nothing_makes_it_perhaps(low):
    said = weakened(SYNC, [finding(low=low)], TIMES)
    assert said.sentence == (
        "Perhaps sync-bound: a read costs up to 30 % of each step. Without the read, a step may take as long, or be "
        "that much shorter. The device is busy for 70 %."
    )
    assert (said.bound, said.share) == (SYNC.bound, SYNC.share)


def test_a_price_larger_than_the_time_in_the_verdict_says_why():
    """The verdict said "costs up to 28 %", and the finding "up to 38 %" of the same read."""
    less = replace(SYNC, share=0.28)
    said = weakened(less, [finding(low=0.0)], TIMES).sentence
    assert "be up to 30.0 ms shorter: host and device would then work at the same time. The device is" in said


@pytest.mark.parametrize(
    ("share", "high", "method", "said"),
    [
        (0.3, 27.9, "counterfactual", "or be up to 27.9 ms shorter by a replay of the steps. The device"),
        (0.3, 27.9, "bound", "or be up to 27.9 ms shorter. The device"),
        # As people read them they are equal.
        (0.29996, 30.0, "counterfactual", "or be that much shorter. The device"),
    ],
)
def test_a_price_is_no_second_bound_of_the_same_without_a_word_on_what_differs(share, high, method, said):
    """ "Costs up to 51 % (1.73 ms of 3.38 ms) ... or be up to 1.60 ms shorter" was said of one read."""
    found = finding(low=0.0)
    found = replace(found, savings=replace(found.savings, high=high, method=method))
    assert said in weakened(replace(SYNC, share=share), [found], TIMES).sentence


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (
            27.6,
            43.6,
            " Without the read, a step may be 27.6 ms to 43.6 ms shorter, which is more than 23.9 ms: host and",
        ),
        (
            13.2,
            29.4,
            " Without the read, a step may be up to 29.4 ms shorter, which is more than 23.9 ms: host and",
        ),
        (
            24.0,
            29.4,
            " Without the read, a step may be up to 29.4 ms shorter, which is more than 23.9 ms: host and",
        ),
        (13.2, 24.0, "of each step."),
    ],
)
def test_a_sure_price_above_the_cost_is_stated_beside_it(low, high, said):
    """The verdict said "costs up to 47 % (23.9 ms)" above a finding "saves 27.6 ms to 43.6 ms"."""
    less = replace(SYNC, share=0.239)
    assert said in weakened(less, [finding(low=low, high=high)], TIMES).sentence
    assert ("shorter" in weakened(less, [finding(low=low, high=high)], TIMES).sentence) is (high > 25)


@pytest.mark.parametrize("status", ["failed", "passed", "unavailable"])
def test_a_price_that_is_withheld_makes_it_perhaps_and_the_reason_is_said(status):
    reason = "it cannot be priced: the replay does not fit"
    said = weakened(SYNC, [finding(status=status, reason=reason)], TIMES).sentence
    assert said.startswith("Perhaps sync-bound: ")
    assert said.endswith(" No price confirms it: the replay does not fit.")


def test_one_of_the_rules_that_is_sure_is_enough():
    fallback = Verdict("fallback", 0.3, "Fallback-bound: ops cost up to 30 %.")
    findings = [finding("aten-fallback", low=0.0), finding("boolean-mask", low=9.0)]
    assert weakened(fallback, findings, TIMES) == fallback
    assert weakened(fallback, findings[:1], TIMES).sentence.startswith("Perhaps fallback-bound: ")


def test_other_verdicts_and_other_heads():
    host = Verdict("host", 0.3, "Host-bound: the device idles.")
    assert weakened(host, [finding(low=0.0)], TIMES) == host
    assert weakened(SYNC, [], TIMES) == SYNC
    assert weakened(SYNC, [finding(low=0.0)], replace(TIMES, seen=False)) == SYNC
    ahead = replace(SYNC, sentence=f"Predicted, not measured: {SYNC.sentence}")
    assert weakened(ahead, [finding(low=0.0)], TIMES).sentence.startswith(
        "Predicted, not measured: Perhaps sync-bound: "
    )


def test_a_doubt_within_a_sentence_begins_small():
    """ "The steps alone are Perhaps sync-bound" would stand behind what most of the time goes to."""
    within = replace(
        SYNC, sentence="Most of it lies between the steps. The steps alone are sync-bound: a read costs."
    )
    said = weakened(within, [finding(low=0.0)], TIMES).sentence
    assert said.startswith(
        "Most of it lies between the steps. The steps alone are perhaps sync-bound: a read costs."
    )


@pytest.mark.parametrize(
    ("low", "confidence", "said"),
    [
        (100 * SURER_FROM_SHARE, "medium", True),
        (100 * SURER_FROM_SHARE - 0.1, "medium", False),
        (10.0, "low", False),
    ],
)
def test_another_cause_that_is_surer_is_named_beside_a_doubtful_one(low, confidence, said):
    """A read that a policy needs was the verdict, while Python made observations for 37 % of each step."""
    other = replace(
        finding("host-blocked", low=low, high=18.0), title="The host runs code", confidence=confidence
    )
    text = weakened(SYNC, [finding(low=0.0), other], TIMES).sentence
    surer = (
        f" Another cause is surer to cost time ({format_ms_range(low, 18.0)} per step): the host runs code."
    )
    assert text.endswith(surer) == said
    assert weakened(SYNC, [finding(low=10.0), other], TIMES) == SYNC


def python_beside(category="host", low=18.0, **parts):
    """A step of 100 ms in which the device works for 55, with a doubtful read and Python that surely costs `low`."""
    times = StepTimes(
        100.0, {"compute": 55.0, "host:python": 40.0, **parts}, busy=55.0, host_work=60.0, reads_share=1.0
    )
    other = Finding(
        "host-blocked", category, "failed", "The host runs code", "", savings=Savings(low, 30.0, "bound")
    )
    return replace(SYNC, share=0.4), [replace(other, confidence="medium"), finding(low=0.0)], times


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({}, "host"),
        # Tracing hides behind a device that works on.
        ({"category": "tracing"}, None),
        ({"low": 100 * SURER_FROM_SHARE - 0.1}, None),
        # Another part is larger than what the finding is on.
        ({"tracing": 60.0}, None),
    ],
)
def test_the_verdict_is_on_the_surer_cause_where_the_first_finding_is(facts, word):
    """A policy reads its actions; Python that makes observations took 37 %, and the read was the verdict."""
    found = surer_bound(*python_beside(**facts))
    assert (found.word if found else None) == word


def test_the_verdict_is_on_the_device_where_the_first_finding_is_on_what_that_computes():
    """A teacher's gradients took a third of a step; a read that cost next to nothing was the verdict."""
    busy = {"compute": 80.0, "host:python": 0.0}
    verdict, findings, times = python_beside(category="compute", **busy)
    times = replace(times, busy=80.0)
    found = surer_bound(verdict, findings, times)
    assert found is not None and found.word == "device"
    assert surer_bound(verdict, [replace(findings[0], category="memory"), findings[1]], times) is None


def test_the_doubtful_cause_stays_the_verdict_where_it_is_first_or_sure():
    verdict, findings, times = python_beside()
    assert surer_bound(verdict, findings[::-1], times) is None
    assert surer_bound(verdict, [findings[0], finding(low=LEAST)], times) is None
    assert surer_bound(replace(verdict, bound="host"), findings, times) is None


def test_the_doubtful_cause_is_said_beside_the_surer_one():
    verdict, findings, _ = python_beside()
    read = replace(
        findings[1], title="An array turned into a float at a.py:5 makes host and device take turns"
    )
    assert said_beside(verdict, [findings[0], read]) == (
        " Beside it, an array turned into a float at a.py:5 makes host and device take turns; whether a step is "
        "shorter without that is doubtful."
    )
    assert said_beside(verdict, findings[:1]) == ""


def test_a_name_at_the_begin_of_a_title_keeps_its_letters():
    verdict, findings, _ = python_beside()
    read = replace(findings[1], title="JAX reads a value")
    assert said_beside(verdict, [findings[0], read]).startswith(" Beside it, JAX reads a value;")
