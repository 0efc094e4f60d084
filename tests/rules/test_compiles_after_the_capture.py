"""Compiles after the captured steps: those of lines that compiled in them are a matter of the rule on their cause."""

from dataclasses import replace

import pytest

from tests.rules.given import compiled, given, steps
from tpuprof.model.compile.recurrence import AfterCapture, CompilingLine
from tpuprof.rules.shared.compile_kinds import chosen_compiles
from tpuprof.rules.shared.compiles_afterwards import check_afterwards
from tpuprof.rules.shared.recompiles import check_kinds

LINE, OTHER = "train (train.py:20)", "evaluate (train.py:7)"


def signals(*lines):
    rows = {line: CompilingLine(20, 20, 5.0, [line], [1]) for line in lines}
    after = AfterCapture(200, 20 * len(lines), 20 * len(lines), 5.0 * len(lines), 20.0, True, rows)
    compiles = [replace(compiled("shape", step=0), frames=[LINE])]
    return given(steps=steps(), step_compiles=compiles, after_capture=after, records_if_noted=[])


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((LINE,), ""),
        ((OTHER,), "20 of 200 steps compiled: 25 % of that time"),
        ((LINE, OTHER), "20 of 200 steps compiled: 25 % of that time"),
    ],
)
def test_only_lines_that_compiled_in_no_captured_step_count(lines, said):
    found = check_afterwards(signals(*lines))
    assert found is None if not said else said in found.title


def half_compile(later, share=0.9):
    """Half of ten captured steps compile, for that share of their time; of 200 after them so many do."""
    lines = {LINE: CompilingLine(later, later, 1.0 * later, [LINE], [1])}
    return given(
        steps=steps(count=10),
        step_ms=100.0,
        step_compiles=[replace(compiled("shape", step=step), frames=[LINE]) for step in range(5)],
        compile_share=share,
        after_capture=AfterCapture(200, later, later, 1.0 * later, 30.0, True, lines),
        records_if_noted=[],
        phases=[],
        framework="torch_xla",
    )


@pytest.mark.parametrize(("share", "status"), [(0.9, "failed"), (0.3, "passed")])
def test_steps_that_compile_seldom_are_shorter_than_the_captured_ones(share, status):
    """One of 45 later steps compiled, for half of their time: "Compile-bound" was said, and no rule failed."""
    assert check_kinds(half_compile(4, share), ("shape",)).status == status


@pytest.mark.parametrize(
    ("later", "title"),
    [
        (25, "5 compiles in 10 steps take 90 % of the time; after the capture 25 of 200 steps compiled"),
        (100, "5 compiles in 10 steps take 90 % of the time"),
    ],
)
def test_the_title_says_what_compiles_took_and_how_many_steps_compiled_later(later, title):
    """In half of the captured steps, and later in an eighth of them: the price is of the later rate."""
    found = check_kinds(half_compile(later), ("shape",))
    assert (found.title, found.confidence) == (title, "high")
    assert found.share == pytest.approx(0.9 * min(later / 200 / 0.5, 1.0))
    assert found.price.of_step == pytest.approx(0.1 + found.share)


@pytest.mark.parametrize(("later", "confidence"), [(3, "medium"), (4, "high")])
def test_a_rate_that_few_compiles_tell_is_not_sure(later, confidence):
    """The price was high on one compile in 45 steps. A binomial distribution's error is 57 % of 3, 49 % of 4 in 200."""
    assert check_kinds(half_compile(later, 0.95), ("shape",)).confidence == confidence


@pytest.mark.parametrize(
    ("kinds", "confidence"), [("ccccgggg", "high"), ("ccgggggg", "medium"), ("cc", "low")]
)
def test_a_line_that_compiles_in_each_step_does_so_whatever_the_cause(kinds, confidence):
    """Two of eight compiles baked a constant in, the others had other ops: it was unknown whether those come again.

    Few compiles of a cause do not tell its rate: one of eight was "high confidence", and compiled for its numbers too.
    """
    of = {"c": "constant", "g": "graph"}
    rows = [replace(compiled(of[kind], step=step), frames=[LINE]) for step, kind in enumerate(kinds)]
    found = check_kinds(
        given(
            steps=steps(count=8), step_ms=100.0, step_compiles=rows, compile_share=0.9, after_capture=None,
            records_if_noted=[], phases=[], framework="torch_xla",
        ),
        ("constant",),
    )  # fmt: skip
    assert (found.status, found.confidence) == ("failed", confidence)


@pytest.mark.parametrize(
    ("later", "counted"),
    [(["constant", "constant"], 3), (["constant"], 1), (["shape", "shape"], 0), (["constant", "graph"], 2)],
)
def test_the_first_graph_of_a_function_goes_with_those_that_follow(later, counted):
    """It has none to be compared with in the capture; other functions say nothing of it."""
    rows = [compiled("first", step=0), *(compiled(kind, step=1 + at) for at, kind in enumerate(later))]
    rows = [replace(row, program=f"jit_update({at})") for at, row in enumerate(rows)]
    rows.append(replace(compiled("first", step=0), program="jit_draw(9)"))
    chosen = chosen_compiles(rows, ("constant",))
    assert len(chosen) == counted
    assert all(row.program != "jit_draw(9)" for row in chosen)
