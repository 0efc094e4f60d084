"""Host work behind device work: without it other work of the host, for which the device idles, begins earlier."""

from dataclasses import replace

import pytest

from tests.rules.given import asleep, given, steps
from tpuprof.report.schema import Evidence, Savings
from tpuprof.rules.base import Price, Rule, failed
from tpuprof.rules.docstring import Page
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of, run_rules


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
