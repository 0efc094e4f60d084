"""JAX hands a program over slowly when it first runs: a fix of compiles saves that too, and their lines are named."""

from dataclasses import replace

import pytest

from tests.rules.given import compiled, given, step
from tpuprof import parts as part
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of

COUNT = 10
LINE = "<module> (/home/u/train.py:25)"


def outcome(dispatch, compiling, framework="jax"):
    """Of steps of 100 ms that dispatch for so long (ms); those numbers of them compile for 60 ms."""
    columns = [
        step(index=number, **{part.COMPILE: 60.0 if number in compiling else 0.0, part.DISPATCH: float(ms)})
        for number, ms in enumerate(dispatch)
    ]
    rows = [
        replace(compiled("constant"), step=number, frames=[LINE], duration_ms=60.0) for number in compiling
    ]
    given_ = {
        "framework": framework, "report": {"compiles": rows}, "steps": columns,
        "compile_share": 0.6 * len(compiling) / len(columns),
    }  # fmt: skip
    return outcome_of(find_rule("recompiles-constant"), given(**given_))


def kept(found):
    return found.price.most.host.get(part.DISPATCH)


def test_what_first_runs_take_longer_goes_with_the_compiles():
    dispatch = [9.0 if number % 2 else 1.0 for number in range(COUNT)]
    found = outcome(dispatch, range(1, COUNT, 2))
    assert kept(found) == pytest.approx(1 - 8 / 10)
    assert found.title.endswith(
        " take 34 % of the time, with their tracing and first calls"
    )  # 30 % by themselves


def test_without_a_step_that_compiles_nothing_there_is_nothing_to_compare_with():
    assert kept(outcome([9.0] * COUNT, range(COUNT))) == 1.0


def test_torch_xla_hands_over_alike():
    dispatch = [9.0 if number % 2 else 1.0 for number in range(COUNT)]
    found = outcome(dispatch, range(1, COUNT, 2), framework="torch_xla")
    assert kept(found) is None
    assert found.title.endswith(" take 30 % of the time")


def test_the_line_that_compiles_is_evidence():
    found = outcome([1.0] * COUNT, range(1, COUNT, 2))
    (fact,) = [each for each in found.evidence if each.text == "compiled when this line ran"]
    assert (fact.source, fact.value) == ("/home/u/train.py:25", COUNT // 2)
