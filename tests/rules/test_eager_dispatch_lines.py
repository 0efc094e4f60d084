"""Which lines of the program eager-dispatch names."""

import pytest

from tests.rules.given import asleep, given
from tests.rules.situations import dispatched
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.tracing.eager_dispatch.rule import SHOWN_FROM_SHARE


def sources(*rows):
    found = outcome_of(find_rule("eager-dispatch"), given(**dispatched(), stacks_if_sampled=list(rows)))
    assert found.status == "failed"
    return [each.source for each in found.evidence if each.source]


def test_the_line_that_calls_ops_is_named():
    assert sources(asleep(10.0, part="dispatch")) == ["train.py:9"]


def test_lines_that_do_something_else_are_not():
    assert sources(asleep(10.0, part="host:python"), asleep(0.0, hidden=5.0, part="dispatch")) == []


@pytest.mark.parametrize(
    ("share", "named"),
    [(SHOWN_FROM_SHARE - 0.01, ["train.py:2"]), (SHOWN_FROM_SHARE, ["train.py:2", "train.py:9"])],
)
def test_a_line_with_little_of_it_is_left_out(share, named):
    rare, usual = asleep(100 * share, part="dispatch"), asleep(100 * (1 - share), part="dispatch")
    usual.source = "train.py:2"
    assert sources(rare, usual) == named
