"""Ops that JAX compiles one by one have the line that called them first, whichever line calls them in the steps."""

from types import SimpleNamespace

import numpy as np

from tpuprof.model.device.first_callers import without_first_callers
from tpuprof.model.device.op_table import OpTotals
from tpuprof.model.host.stacks import Stack

NONE = np.zeros(0, np.int64)
SEEN = SimpleNamespace(
    stacks=[Stack(("main (train.py:9)", "update (train.py:66)"), "f()", "train.py:66", "f()")]
)


def ops(*rows):
    """Rows of (program, source)."""
    programs, sources = map(list, zip(*rows, strict=True))
    return OpTotals(
        name=[], category=[], program=programs, source=sources, scope=[], kind=NONE, flops=NONE, bytes=NONE,
        hbm_bytes=NONE, facts=[], fact=NONE, occurrences=NONE, total_ps=NONE, self_ps=NONE, step_ps=NONE, clock_ps=NONE,
    )  # fmt: skip


def test_a_line_at_which_training_never_was_is_that_of_the_first_call():
    """Multiplications of an optimizer had a line of `init`: "at eager_optimizer.py:18", which runs once."""
    step = [("jit_step(1)", "train.py:18")] * 3
    found = without_first_callers(
        ops(("jit_multiply(2)", "train.py:18"), ("jit_add(3)", "train.py:66"), *step), [SEEN]
    )
    assert found.source == ["", "train.py:66", *["train.py:18"] * 3]


def test_without_samples_all_lines_stay():
    given = ops(("jit_multiply(2)", "train.py:18"))
    assert without_first_callers(given, [SEEN, None]) is given
    assert without_first_callers(given, []) is given
