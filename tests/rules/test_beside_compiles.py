"""Waits for input in steps that compile: compiles do not make what waits take of the rest a little thing."""

import pytest

from tests.rules.given import given, steps
from tpuprof.report.sections import InputRow
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.thresholds import FAILS_FROM_SHARE

COMPILING = 80.0


def waits(ms, diagnosis="restarted_workers"):
    """Steps of 100 ms that compile for 80, and wait so long for a batch."""
    row = InputRow("host0", "loader", 1.0, None, ms, ms, 0.0, diagnosis)
    facts = {"input_pipelines": [row], "stacks_if_sampled": []}
    return outcome_of(
        find_rule("input-starved"), given(steps=steps(compile=COMPILING, input_wait=ms), **facts)
    )


@pytest.mark.parametrize(("over", "status"), [(0.1, "failed"), (-0.1, "passed")])
def test_waits_are_judged_by_what_compiles_leave_of_a_step(over, status):
    """A Lightning loop starts its workers anew in each epoch; one step compiled for 3.3 s, and it had no finding."""
    assert waits(FAILS_FROM_SHARE * (100.0 - COMPILING) + over).status == status


def test_the_title_and_the_price_are_of_that_too():
    found = waits(10.0)
    assert found.title.startswith("The device waits 50 % of each step without its compiles for data")
    assert found.price.judged_of == pytest.approx(0.2)
    assert found.price.of_step == 1.0


def test_the_share_at_stake_is_of_the_whole_step():
    assert waits(10.0).share == pytest.approx(0.1)
