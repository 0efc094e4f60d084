"""What is known of a price where nothing can be replayed: of what was measured itself, an upper bound."""

from dataclasses import replace

import pytest

from tests.rules.given import asleep, given, op, step
from tpuprof.rules.base import Price, failed
from tpuprof.rules.pricing import BOUND, Pricing
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import run_rules
from tpuprof.simulate.change import Change

MISSED = "it cannot be priced: the replay gives 88.1 ms per step where 74.5 ms were measured, 18 % off"


@pytest.mark.parametrize(
    ("change", "most"),
    [
        (Change(device={"compute": 0.25}), 60.0),
        (Change(device={"compute": 0.25, "collective_exposed": 0.5}), 62.0),
        (Change(device={"infeed_outfeed": 0.0}), None),
        (Change(host={"tracing": 0.0}), 16.0),
        (Change(host={"host:sleep": 0.0}), None),
        # What host and device do side by side then is not measured.
        (Change(device={"compute": 0.25}, unblock=True), None),
        (Change(host={"tracing": 0.0}, join_cuts=0.0), None),
        (Change(host={"tracing": 0.0}, steps=frozenset({0})), None),
    ],
)
def test_work_that_goes_is_the_most_that_is_saved(change, most):
    pricing = Pricing(
        given(steps=[step(100.0, compute=80.0, collective_exposed=4.0, tracing=16.0)]), lambda: MISSED
    )
    found, why = pricing.savings(Price(change, change))
    if most is None:
        assert (found, why) == (None, MISSED)
        return
    assert (found.low, found.high, found.method) == (0.0, pytest.approx(most), BOUND)
    assert "it cannot be replayed: the replay gives" in found.note
    assert why == ""


def test_what_hides_behind_the_device_may_be_saved_as_well():
    pricing = Pricing(given(steps=[step(100.0, compute=80.0, tracing=16.0)]), lambda: MISSED)
    change = Change(host={"tracing": 0.5})
    found, _ = pricing.savings(Price(change, change, hidden=0.04))
    assert found.high == pytest.approx(8.0 + 4.0)


def in_callback(lost, *, sees_device=True):
    """What the rule says of a program that waits for Python on the host, where the replay misses."""
    ops = [op("callback.1", kind="host_callback", self_ms_per_step=lost)]
    rows = [step(100.0, index, compute=20.0, host_callback=lost, tracing=80.0 - lost) for index in range(8)]
    signals = given(steps=rows, ops=ops, callback_alone_ms=lost, framework="jax", sees_device=sees_device)
    return run_rules(signals, [find_rule("host-blocked")], lambda: MISSED)[0]


def test_a_callback_that_the_trace_times_has_a_price_without_a_replay():
    """A wait of 18.4 ms for a callback was measured, and no price was given: the replay was 11 % off."""
    found = in_callback(70.0)
    assert (found.savings.low, found.savings.method, found.confidence) == (0.0, BOUND, "low")
    # Without the callback the rest of the host's work may run beside the device as well.
    assert found.savings.high == pytest.approx(80.0)


def test_a_bound_is_no_doubt_of_the_cause():
    """The finding of a measured cause stands where it would with a replay: half as much of another is not more."""
    sleeping = given(
        steps=[step(100.0, index, compute=40.0, **{"host:sleep": 30.0}, input_wait=20.0) for index in range(8)],
        sampled_host_ms={"host:sleep": 30.0}, host_stacks=[asleep(30.0)], sampled_late=False, cpus_taken=False,
    )  # fmt: skip
    rules = [
        replace(find_rule("host-blocked"), id="measured"),
        replace(
            find_rule("host-blocked"), id="another", check=lambda _: failed(0.2, [], confidence="medium")
        ),
    ]
    found = run_rules(sleeping, rules, lambda: MISSED)
    assert [(each.rule, each.confidence) for each in found] == [("measured", "low"), ("another", "medium")]


@pytest.mark.parametrize(
    ("change", "most"),
    [
        (Change(host={"tracing": 0.0}), 16.0 + 20.0),
        (Change(device={"host_callback": 0.0}), 4.0 + 20.0),
        (Change(device={"compute": 0.5}), 40.0),
    ],
)
def test_a_device_that_shares_the_cpus_may_become_faster(change, most):
    """At most 6.0 ms was said of a callback, whose cure took 6.4 to 7.6 ms out of steps of 12.8."""
    pricing = Pricing(
        given(steps=[step(100.0, compute=80.0, host_callback=4.0, tracing=16.0)]), lambda: MISSED
    )
    pricing.__dict__["calm"] = 0.75
    assert pricing.savings(Price(change, change))[0].high == pytest.approx(most)
