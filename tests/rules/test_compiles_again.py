"""Compiles of programs that there were: whether they come again is a matter of steps, and not of programs."""

from dataclasses import replace

import pytest

from tests.rules.given import compiled, given, steps
from tpuprof.model.compile.recurrence import RETURNS_FROM_STEPS
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.shared.recompiles import COMES_AGAIN_UNKNOWN


@pytest.mark.parametrize(("apart", "sure"), [(True, True), (False, False)])
def test_programs_that_are_compiled_again_in_one_step_are_one_occasion(apart, sure):
    """A first evaluation that makes three jitted functions is no compile in each epoch."""
    rows = [replace(compiled("again"), step=3 * row if apart else 1) for row in range(RETURNS_FROM_STEPS)]
    facts = {"report": {"compiles": rows}, "steps": steps(10), "compile_share": 0.5, "explains_misses": False}
    found = outcome_of(find_rule("recompiles-other"), given(**facts))
    assert (COMES_AGAIN_UNKNOWN not in found.title) is sure
