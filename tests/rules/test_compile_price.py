"""What a smaller program saves of a slow start: the compile of all but one of the layers, where those are told."""

from dataclasses import replace

import pytest

from tests.rules.given import given, loop
from tests.rules.situations import started
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.thresholds import SLOW_COMPILE_FROM_SECONDS, STARTUP_SPREAD_OVER_STEPS

PER_STEP_MS = SLOW_COMPILE_FROM_SECONDS * 1e3 / STARTUP_SPREAD_OVER_STEPS


def outcome(*loops):
    signals = given(**{**started(SLOW_COMPILE_FROM_SECONDS), "loops": list(loops)})
    return outcome_of(find_rule("slow-compile"), signals)


def saved(*loops):
    savings = outcome(*loops).price.savings
    return savings.low / PER_STEP_MS, savings.high / PER_STEP_MS


def test_layers_whose_ops_are_told():
    row = replace(loop(10), ops_share_low=0.6, ops_share_high=0.9)
    assert saved(row) == pytest.approx((0.6 * 0.9, 0.9 * 0.9))
    assert {10, 0.6, 0.9} <= {each.value for each in outcome(row).evidence}
    assert outcome().evidence == [each for each in outcome(row).evidence if each.value not in (10, 0.6, 0.9)]


def test_the_block_repeated_most_often_counts():
    few = replace(loop(4), ops_share_low=0.1, ops_share_high=0.1)
    many = replace(loop(10), ops_share_low=0.6, ops_share_high=0.9)
    assert saved(few, many) == saved(many)


@pytest.mark.parametrize(
    "loops", [(), (loop(10),), (replace(loop(10, "while"), ops_share_low=0.6, ops_share_high=0.9),)]
)
def test_else_anything_up_to_the_whole_compile(loops):
    assert saved(*loops) == (0.0, 1.0)
