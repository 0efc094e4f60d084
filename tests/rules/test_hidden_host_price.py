"""Host work behind device work: without it other work of the host, for which the device idles, begins earlier."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.rules.given import asleep, given, steps
from tpuprof.report.schema import Evidence, Savings
from tpuprof.rules.base import Price, Rule, failed
from tpuprof.rules.docstring import Page
from tpuprof.rules.pricing import SIDE_BY_SIDE, Pricing
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of, run_rules
from tpuprof.simulate.change import Change


@pytest.mark.parametrize(
    ("hidden", "computing", "more"),
    [
        (0.0, 50.0, 0.0),
        (20.0, 50.0, 20.0),
        # The device idles for 40 ms, of which this work takes 20.
        (90.0, 60.0, 20.0),
        (90.0, 80.0, 0.0),
    ],
)
def test_it_counts_as_far_as_the_device_idles_for_something_else(hidden, computing, more):
    row = replace(asleep(20.0, part="host:python"), hidden_ms_per_step=hidden)
    facts = {"steps": steps(compute=computing), "host_stacks": [row]}
    found = outcome_of(find_rule("host-blocked"), given(**facts))
    assert (found.share, found.price.hidden) == (pytest.approx(0.2), pytest.approx(more / 100))


def test_a_replay_may_save_as_much_more():
    price = Price(savings=Savings(70.0, 80.0, "counterfactual"), hidden=0.45)
    rule = Rule(
        "made", "tests", "preview", "good", "bad", False, Page(""),
        lambda _: failed(0.3, [Evidence("it")], price=price), __name__,
    )  # fmt: skip
    (found,) = run_rules(given(steps=steps()), [rule])
    assert (found.savings.low, found.savings.high, found.savings.note) == (70.0, 75.0, "")


@pytest.mark.parametrize(("device", "exposed"), [("CPU", 0.2), ("TPU v5e", 1.0)])
def test_a_device_that_is_this_machines_cpu_is_slower_beside_the_host(device, exposed):
    """Features made in Python: 101 to 108 ms by the replay, and 65 to 82 were saved of steps of 218 ms."""
    row = replace(asleep(20.0, part="host:python"), hidden_ms_per_step=20.0)
    facts = {"steps": steps(compute=50.0), "host_stacks": [row], "device_type": device}
    price = outcome_of(find_rule("host-blocked"), given(**facts)).price
    assert price.exposed == pytest.approx(exposed)


@pytest.mark.parametrize(
    ("exposed", "low", "note"), [(0.2, 20.0, SIDE_BY_SIDE), (1.0, 40.0, ""), (0.5, 40.0, "")]
)
def test_what_a_replay_saves_beyond_idle_time_is_no_lower_end_then(exposed, low, note):
    simulator = SimpleNamespace(measured_ms=100.0, error=0.0, step_ms=lambda _: 60.0, unended_ms=0.0)
    price = Price(most=Change(host={"host:python": 0.0}), exposed=exposed)
    found, _ = Pricing(given(steps=steps(), fed_by_others=()), lambda: simulator).savings(price)
    assert (found.low, found.high, found.note) == (low, 40.0, note)
