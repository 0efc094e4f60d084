"""Compiles that several lines make: the price is of all of them together, and every line is named."""

from dataclasses import replace

import pytest

from tests.rules.given import compiled, compiling
from tpuprof.model.compile.cause import BAKED_ARRAY, NEW_STATIC, SAME_PROGRAM, WEAK_TYPE
from tpuprof.render.content import compile_place, place
from tpuprof.report.schema import Cause
from tpuprof.rules.registry import find_rule
from tpuprof.rules.shared.compile_kinds import definitions_text
from tpuprof.rules.shared.recompiles import CLOSED_FROM_SHARE, check_kinds


def found(*causes):
    """All ten captured steps compile, for the given further lines and whether there may be others."""
    compiles = [
        replace(row, cause=replace(row.cause, also=list(also), others=others))
        for step in range(10)
        for also, others in [causes[step % len(causes)]]
        for row in [compiled("constant", step=step, file="train.py")]
    ]
    return check_kinds(compiling(compiles), ("constant",)), compiles


def test_all_lines_are_named_and_priced_together():
    outcome, compiles = found((("train.py:9",), False))
    assert outcome.title.endswith("; a cure needs changes at train.py:7 and train.py:9")
    assert outcome.evidence[0].places == ["train.py:7", "train.py:9"]
    assert place(outcome.evidence[0]).startswith("train.py:7 and train.py:9")
    assert compile_place(compiles[0]) == "train.py:7 and train.py:9"
    assert outcome.confidence == "high"


def test_lines_of_other_compiles_count_too():
    outcome, _ = found(((), False), (("other.py:3",), False))
    assert outcome.title.endswith("at other.py:3 and train.py:7")


@pytest.mark.parametrize(
    ("causes", "confidence", "sure"),
    [
        ([((), False)], "high", True),
        ([((), True)], "medium", False),
        # One compile tells all lines.
        ([((), True), ((), False)], "high", True),
    ],
)
def test_where_other_lines_may_compile_too_the_price_begins_at_nothing(causes, confidence, sure):
    outcome, _ = found(*causes)
    assert outcome.confidence == confidence
    assert (outcome.price.most == outcome.price.least) is sure
    assert ("other lines may compile" in outcome.title) is not sure


@pytest.mark.parametrize(
    ("framework", "kind", "first"),
    [
        ("jax", "shape", "train.py:30"),
        ("jax", "constant", "train.py:7"),
        ("torch_xla", "shape", "train.py:7"),
    ],
)
def test_what_a_jitted_function_is_given_comes_from_the_line_that_calls_it(framework, kind, first):
    """Its own first line that uses the argument was named: `mask = tokens > 0` inside of the model."""
    rows = [
        replace(compiled(kind, step=step, file="train.py"), frames=["<module> (train.py:30)"])
        for step in range(10)
    ]
    assert check_kinds(compiling(rows, framework=framework), (kind,)).evidence[0].places == [first]


@pytest.mark.parametrize(
    ("framework", "arrays", "case", "first"),
    [
        ("jax", CLOSED_FROM_SHARE, "closure", "train.py:30"),
        ("jax", CLOSED_FROM_SHARE - 0.1, "number", "train.py:7"),
        # What torch_xla bakes in comes from Python as well, but from no function that is jitted.
        ("torch_xla", 1.0, "number", "train.py:7"),
    ],
)
def test_arrays_that_a_jitted_function_holds_are_those_of_a_function_made_again(
    framework, arrays, case, first
):
    """`jax.jit(lambda p: loss_fn(p, x, y))` in the loop: two lines of the model were named, where nothing can change."""
    rows = []
    for step in range(10):
        row = compiled("constant", step=step, file="train.py")
        detail = f"{BAKED_ARRAY}: f32[512,96]" if step < 10 * arrays else row.cause.detail
        also = ["train.py:9"]
        cause = replace(row.cause, detail=detail, also=also)
        rows.append(replace(row, cause=cause, frames=["<module> (train.py:30)"]))
    outcome = find_rule("recompiles-constant").check(compiling(rows, framework=framework))
    assert outcome.cases == {case}
    assert outcome.evidence[0].places[0] == first
    assert ("bakes in" in outcome.title) is (case == "closure")
    assert ("a cure needs changes at" in outcome.title) is (case == "number")
    # Equinox' `filter_jit` takes a Python number for a static argument: nothing has to change where it is used.
    comes_from = "train.py:9, or where the number comes from, before the call at train.py:30"
    assert (comes_from in outcome.title) is (case == "number" and framework == "jax")


def of_clients(
    framework="jax", detail=SAME_PROGRAM, function="train_step", line="local_update (train.py:63)"
):
    """Four compiles of a function that is made for each client: the arrays it bakes in change once, from round to round.

    The three others are as given.
    """
    rows = [
        replace(
            compiled("again", step=step, file="train.py"),
            program=f"jit_{function}({step})",
            frames=[line],
            cause=Cause("again", detail, "train.py", 63),
        )
        for step in range(3)
    ]
    baked = Cause("constant", f"{BAKED_ARRAY}: f32[64,10]", "train.py", 49)
    frames = ["local_update (train.py:63)"]
    rows.append(
        replace(compiled("constant", step=3), program="jit_train_step(9)", frames=frames, cause=baked)
    )
    rules = map(find_rule, ("recompiles-constant", "recompiles-other"))
    return [rule.check(compiling(rows, framework=framework)) for rule in rules]


def test_one_function_that_is_made_again_is_one_fault():
    """FedProx: its compiles were two findings, one of 3 and one of 1, and neither named the other."""
    constant, other = of_clients()
    assert (constant.status, other.status) == ("failed", "passed")
    assert constant.title.startswith("4 compiles in 10 steps take 90 % of the time")
    assert "have changed in 1 of them, and 3 made the same program again" in constant.title
    assert constant.cases == {"closure"}


@pytest.mark.parametrize(
    ("defined", "said"),
    [
        (("step (train.py:52)",) * 4, "; step is defined at train.py:52"),
        (("step (train.py:52)",) * 2 + ("",) * 2, "; step is defined at train.py:52"),
        (
            ("step (train.py:52)", "step (train.py:9)") * 2,
            "; their functions are defined at train.py:52 and train.py:9",
        ),
        (("",) * 4, ""),
    ],
)
def test_a_function_that_is_made_again_is_named_with_the_line_where_it_is_made(defined, said):
    """FedProx: only the line that calls `train_step` was named, and it is made anew by `@jax.jit` eleven lines above."""
    rows = [
        replace(compiled("again"), step=step, defined=each, cause=Cause("again", SAME_PROGRAM, "", None))
        for step, each in enumerate(defined)
    ]
    assert definitions_text(rows) == said
    title = find_rule("recompiles-other").check(compiling(rows, framework="jax")).title
    assert ("defined at" in title) is bool(said) and said in title
    # Its arguments are what is to be changed there, and not the function.
    other = [replace(row, cause=Cause("shape", "an input changed", "", None)) for row in rows]
    assert definitions_text(other) == ""


@pytest.mark.parametrize(
    "changed",
    [
        {"framework": "torch_xla"},
        {"function": "eval_step"},
        {"line": "evaluate (train.py:80)"},
        # These leave the function as it was.
        {"detail": f"{NEW_STATIC}: <Config>"},
        {"detail": f"{WEAK_TYPE}: lr became a Python number"},
    ],
)
def test_compiles_of_another_cause_stay_a_finding_of_their_own(changed):
    constant, other = of_clients(**changed)
    assert (constant.status, other.status) == ("failed", "failed")
    assert constant.title.startswith("1 compile in 10 steps takes")
    assert "same program again" not in constant.title
