"""Which function calls what compiles, where the lines that compile are those of a model that runs outside of a jit."""

from dataclasses import replace

import pytest

from tests.rules.given import compiled, compiling
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.shared.common_caller import WITHIN_FROM_SHARE, common_caller

LIBRARY = "apply (/v/lib/python3.11/site-packages/flax/linen/module.py:10)"
LOOP = ["main (train.py:81)", "<module> (train.py:94)"]
EVALUATES = ["evaluate (train.py:57)", *LOOP]


def row(*frames, ms=100.0, program="jit_add(1)", step=1):
    return replace(compiled("again", ms, step), frames=[*frames, LIBRARY], program=program)


@pytest.mark.parametrize(
    ("rows", "caller"),
    [
        # Lines of a model that an evaluation calls.
        ([row("call (m.py:23)", *EVALUATES), row("call (m.py:39)", *EVALUATES)], EVALUATES[0]),
        # One line makes all of it, in a loop or in a function that the loop calls.
        ([row(*LOOP), row(*LOOP)], ""),
        ([row("call (m.py:23)", *EVALUATES)] * 2, ""),
        # A scan outside of a jitted function: its line is in the model.
        ([row("call (m.py:39)", *EVALUATES, program="jit_scan(2)")] * 2, EVALUATES[0]),
        ([row(*LOOP, program="jit_scan(2)")], ""),
        # Two lines of the loop itself.
        ([row("main (train.py:70)", LOOP[1]), row(*LOOP)], ""),
        ([row("f (a.py:1)", *LOOP), row("g (b.py:1)", *LOOP)], LOOP[0]),
        ([row()], ""),
        ([], ""),
    ],
)
def test_the_innermost_function_that_calls_all_of_it_is_named(rows, caller):
    assert common_caller(rows) == caller


@pytest.mark.parametrize(("share", "named"), [(WITHIN_FROM_SHARE, True), (WITHIN_FROM_SHARE - 0.01, False)])
def test_nearly_all_of_the_time_is_within_it(share, named):
    within = [
        row("call (m.py:23)", *EVALUATES, ms=50.0 * share),
        row("call (m.py:39)", *EVALUATES, ms=50.0 * share),
    ]
    other = row("<module> (train.py:12)", ms=100.0 * (1 - share))
    assert (common_caller([*within, other]) == EVALUATES[0]) == named


@pytest.mark.parametrize("framework", ["jax", "torch_xla"])
def test_the_finding_is_at_the_line_that_calls_it(framework):
    """Eight batches of an evaluation compiled a scan each, and lines 39 and 24 of the model were named."""
    rows = [
        row("call (m.py:39)", *EVALUATES, ms=225.0, program="jit_scan(2)", step=each) for each in range(4)
    ]
    found = outcome_of(find_rule("recompiles-other"), compiling(rows, framework=framework))
    assert ("; what compiles is called in evaluate (train.py:57)" in found.title) == (framework == "jax")
    first = next(each.source for each in found.evidence if each.source)
    assert (first == "train.py:57") == (framework == "jax")
