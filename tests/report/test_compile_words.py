"""A verdict on compiles names the line that most of them are for, and what changes there."""

from dataclasses import replace

import pytest

from tests.rules.given import compiled
from tpuprof.analysis.sections.compile_words import MOST_FROM_SHARE, said_of_compiles


def row(kind, ms, line=52, step=1, file="train.py"):
    found = compiled(kind, ms, step)
    return replace(found, cause=replace(found.cause, source_file=file, source_line=line))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("shape", "Most of it is for new input shapes, at train.py:52."),
        ("constant", "Most of it is for a constant that changes, at train.py:52."),
        ("graph", "Most of it is for graphs with other ops or inputs, at train.py:52."),
        # What changed is unknown.
        ("unknown", "Most of it is at train.py:52."),
    ],
)
def test_the_line_is_named_with_what_changes_there(kind, said):
    assert said_of_compiles([row(kind, 10.0), row(kind, 12.0, step=2)]) == f" {said}"


def test_a_cause_that_is_less_than_half_of_it_is_not_named():
    rows = [row("shape", 4.0), row("constant", 3.0), row("graph", 3.0)]
    assert said_of_compiles(rows) == " Most of it is at train.py:52."


@pytest.mark.parametrize(("other", "named"), [(10.0, True), (10.1, False)])
def test_a_line_is_named_where_it_is_most(other, named):
    at = [row("shape", 10.0), row("shape", other / 2, line=60), row("shape", other / 2, line=61)]
    assert MOST_FROM_SHARE == 0.5
    assert (said_of_compiles(at) != "") is named


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [row("shape", 10.0, step=None)],
        [row("shape", 10.0, file="")],
        [row("shape", 10.0, file="/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py")],
    ],
    ids=["none", "outside of steps", "no line", "a line of a library"],
)
def test_nothing_is_said_where_no_line_of_the_program_is_known(rows):
    assert said_of_compiles(rows) == ""
