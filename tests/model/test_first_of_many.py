"""The first of many programs that differ in a number has their cause: the first CutMix among steps of MixUp."""

import pytest

from tpuprof.model.compile.cause import NOT_THE_LAST, CompileCause
from tpuprof.model.compile.compiles import Compile, with_first_of_many

NUMBER = CompileCause("constant", f"2 constants changed ({NOT_THE_LAST})", "mixup.py:30")
OPS = CompileCause("graph", "8 ops more", "train.py:9")


def compile_of(number, cause, line="main (train.py:38)"):
    return Compile(number, "hash", f"graph({number})", number, 1, cause, (line,))


def kinds(*rows, compared):
    return [each.cause.kind for each in with_first_of_many(list(rows), compared)]


def test_the_first_one_has_the_cause_of_those_that_differ_from_it_in_a_number():
    """One change cures both, and each had half of the price, in two findings."""
    rows = [compile_of(1, OPS), compile_of(2, NUMBER)]
    first, _ = with_first_of_many(rows, ["graph(0)", "graph(1)"])
    assert (first.cause.kind, first.cause.source) == ("constant", "mixup.py:30")
    assert first.cause.detail == "2 constants changed, in a later compile: this is the first such graph"


@pytest.mark.parametrize(
    ("later", "compared"),
    [
        (compile_of(2, NUMBER), "graph(0)"),
        (compile_of(2, OPS), "graph(1)"),
        (compile_of(2, NUMBER, "evaluate (train.py:50)"), "graph(1)"),
    ],
    ids=["differs from another program", "has other ops as well", "is of another line"],
)
def test_others_keep_theirs(later, compared):
    assert kinds(compile_of(1, OPS), later, compared=["graph(0)", compared])[0] == "graph"


def test_one_that_differs_in_its_shapes_stays():
    shape = CompileCause("shape", "an input grew", "train.py:3")
    assert kinds(compile_of(1, shape), compile_of(2, NUMBER), compared=["", "graph(1)"]) == [
        "shape",
        "constant",
    ]
