"""Compiles of programs that there were: whether they come again is a matter of steps, and not of programs."""

from dataclasses import replace

import pytest

from tests.rules.given import compiled, given, steps
from tpuprof.model.compile.recurrence import RETURNS_FROM_STEPS
from tpuprof.report.schema import Evidence, Savings
from tpuprof.rules.base import Price, Rule, failed
from tpuprof.rules.docstring import Page
from tpuprof.rules.pricing import COUNTERFACTUAL
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of, run_rules
from tpuprof.rules.shared.recompiles import COMES_AGAIN_UNKNOWN, SURE_FROM_SHARE


@pytest.mark.parametrize(("apart", "sure"), [(True, True), (False, False)])
def test_programs_that_are_compiled_again_in_one_step_are_one_occasion(apart, sure):
    """A first evaluation that makes three jitted functions is no compile in each epoch."""
    rows = [replace(compiled("again"), step=3 * row if apart else 1) for row in range(RETURNS_FROM_STEPS)]
    facts = {"report": {"compiles": rows}, "steps": steps(10), "compile_share": 0.5, "explains_misses": False}
    found = outcome_of(find_rule("recompiles-other"), given(**facts))
    assert (COMES_AGAIN_UNKNOWN not in found.title) is sure


@pytest.mark.parametrize(
    ("of_step", "status", "severity"), [(1.0, "passed", 0.0), (0.5, "failed", 0.08), (0.05, "failed", 0.8)]
)
def test_a_price_is_little_or_much_of_the_step_that_it_belongs_to(of_step, status, severity):
    """Dropped layers: 5 of 8 captured steps compiled for 7 s each, later 3 of 135: 228 of 337 ms per step, and "passed"."""
    price = Price(savings=Savings(4.0, 4.0, COUNTERFACTUAL), of_step=of_step)
    rule = Rule(
        "made", "tests", "preview", "good", "bad", False, Page(""),
        lambda _: failed(0.05, [Evidence("it")], price=price), __name__,
    )  # fmt: skip
    (found,) = run_rules(given(steps=steps()), [rule])
    assert (found.status, found.severity) == (status, pytest.approx(severity))


def after_first_calls(first_ms):
    """A loop that compiles for 50 ms in each of ten steps, behind the first call of another function."""
    first = replace(compiled("first", first_ms, 0, "train.py"), frames=["main (train.py:68)"])
    loop = [
        replace(compiled("again", 50.0, step, "train.py"), frames=["returns (train.py:28)"])
        for step in range(10)
    ]
    rows = [first, *(replace(row, cause=replace(row.cause, source_line=28)) for row in loop)]
    facts = {"report": {"compiles": rows}, "steps": steps(10), "compile_share": 0.5, "explains_misses": False}
    return outcome_of(find_rule("recompiles-other"), given(**facts))


@pytest.mark.parametrize(("first_ms", "confidence"), [(400.0, "medium"), (600.0, "low")])
def test_first_calls_leave_compiles_of_each_step_their_line_and_confidence(first_ms, confidence):
    """`lax.scan` of a closure compiled in 43 of 43 steps: "unknown whether compiles come again", at `predict`'s line."""
    found = after_first_calls(first_ms)
    assert COMES_AGAIN_UNKNOWN not in found.title
    assert found.title.endswith("; it is unknown whether 1 of them comes again")
    assert found.evidence[0].source == "train.py:28"
    assert found.confidence == confidence
    assert 500 / (500 + 400) > SURE_FROM_SHARE > 500 / (500 + 600)


@pytest.mark.parametrize(
    ("once", "cases"), [(1, {"flow"}), (3, {"flow", "function", "static", "number", "ask"})]
)
def test_the_advice_is_for_functions_that_compile_again_and_again(once, cases):
    """`lax.scan` converts its arguments in the first step: four kinds of advice stood before its own."""
    loop = [replace(compiled("again", 50.0, step), program="jit_scan(7)") for step in range(10)]
    others = [
        replace(compiled("again", 9.0, step), program="jit_convert_element_type(3)") for step in range(once)
    ]
    facts = {"steps": steps(10), "compile_share": 0.5, "explains_misses": False, "framework": "jax"}
    found = outcome_of(find_rule("recompiles-other"), given(report={"compiles": others + loop}, **facts))
    assert found.cases == cases
