"""Compiles of other graphs beside compiles for new shapes: with one shape, such a graph would compile once in a run."""

from dataclasses import replace

import pytest

from tests.rules.given import compiled, compiling
from tpuprof.rules.shared.recompiles import FURTHER_FROM_SHARE, check_kinds

CUT = "main (train.py:92)"


def found(
    *, line=CUT, in_read=False, kind="graph", asked=("shape", "dtype"), took=0.2, change="what changed"
):
    """Four of eight captured steps compile for shapes, and one a graph of another kind, for that share of the time."""
    rows = [replace(compiled("shape", ms=(1 - took) * 100, step=step), frames=[CUT]) for step in (0, 2, 4, 6)]
    rows = [replace(row, cause=replace(row.cause, detail=change)) for row in rows]
    rows.append(replace(compiled(kind, ms=took * 400, step=5), frames=[line], in_read=in_read))
    return check_kinds(compiling(rows, count=8), asked)


def test_the_upper_end_counts_them():
    outcome = found()
    assert "1 further compile at the same line is of another graph" in outcome.title
    assert outcome.price.least.host["compile"] == pytest.approx(0.2)
    assert outcome.price.most.host["compile"] == pytest.approx(0.0)
    # The finding's own share stays that of the shapes; only the price may go beyond it.
    assert (outcome.share, outcome.price.hidden) == pytest.approx((0.72, 0.18))


def test_as_soon_as_they_take_enough():
    assert "1 further compile" in found(took=FURTHER_FROM_SHARE + 0.001).title


@pytest.mark.parametrize(
    "other",
    [
        {"line": "show (train.py:7)"},  # another line has shapes of its own
        {"in_read": True},  # the graph of a read is another graph anyway
        {"kind": "constant"},  # a number that is baked in compiles each time, whatever the shapes
        {"took": FURTHER_FROM_SHARE - 0.001},
        # What follows from a mask's counts is in the price of boolean-mask.
        {"change": "s64[29,1] became s64[30,1]"},
        {"asked": ("graph",)},  # the rule on graphs counts graphs
    ],
)
def test_others_are_not_counted(other):
    outcome = found(**other)
    assert "further compile" not in outcome.title
    assert outcome.price.hidden == 0.0
    assert outcome.price.most == outcome.price.least
