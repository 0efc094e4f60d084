"""Compiles between the training steps, in what comes again there: a text that grows word by word."""

from dataclasses import replace

import pytest

from tests.rules.given import compiled, given, steps
from tpuprof.model.compile.recurrence import RETURNS_FROM_STEPS
from tpuprof.report.between import EVALUATION, OTHER_CALLS
from tpuprof.report.schema import Cause
from tpuprof.report.sections import PhaseRow
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.thresholds import FAILS_FROM_SHARE

MS = 1_000_000


def growing(count, *, took=50.0, first=60, by=1, at=2000, program="jit_next_logits"):
    """Compiles of one function, each for a prompt that is longer by one, 100 ms apart from a time on (ms)."""
    return [
        replace(
            compiled("shape", took, None),
            program=f"{program}({number})",
            start_ns=(at + 100 * number) * MS,
            cause=Cause(
                "shape",
                f"an input changed: s32[{first + by * number}] became s32[{first + by * (number + 1)}]",
            ),
            frames=["sample (train.py:80)"],
        )
        for number in range(count)
    ]


def outcome(rows, phases=None, count=10, **more):
    """Ten steps of 100 ms, and a second between two of them."""
    between = [PhaseRow(OTHER_CALLS, "host0", 2000 * MS, 1000.0, 9, "why", 5)] if phases is None else phases
    given_ = given(
        steps=steps(count), step_ms=100.0, compile_share=0.0, framework="jax", phases=between,
        report={"compiles": rows, "phases": between}, records_if_noted=[], after_capture=None, tracing_hidden_ms=0.0,
        uncut_steps=[], cutting_reads=[], **more,
    )  # fmt: skip
    return outcome_of(find_rule("recompiles-shape"), given_)


def test_a_prompt_that_grows_between_steps_is_a_finding_without_a_price():
    """Text of every twentieth step took 60 of 80 s, its compiles were listed, and "no rule failed"."""
    found = outcome(growing(10))
    assert (found.status, found.price, found.cases) == ("failed", None, {"grows"})
    assert found.title == (
        "10 compiles between the training steps take 25 % of the time of both; inputs changed (s32[60] became s32[61])"
    )
    assert found.share == pytest.approx(0.25)
    assert (
        found.reason
        == "they take 500 ms of the 1.00 s between the steps, and no step is shorter without them"
    )
    assert found.evidence[0].source == "train.py:80"


@pytest.mark.parametrize(("more", "status"), [(1.0, "failed"), (-1.0, "passed")])
def test_they_must_take_a_tenth_of_the_time(more, status):
    assert outcome(growing(10, took=FAILS_FROM_SHARE * 2000 / 10 + more)).status == status


@pytest.mark.parametrize(
    ("count", "status"), [(RETURNS_FROM_STEPS, "failed"), (RETURNS_FROM_STEPS - 1, "passed")]
)
def test_one_function_must_compile_again_and_again(count, status):
    """The first evaluation compiles each of its functions once."""
    others = [row for number in range(8) for row in growing(1, took=200.0, program=f"jit_f{number}")]
    assert outcome([*growing(count, took=200.0), *others]).status == status


@pytest.mark.parametrize(
    ("phases", "status"),
    [
        ([PhaseRow(EVALUATION, "host0", 2000 * MS, 1000.0, 9, "why", 5)], "failed"),
        # What the program does before its first step, or inside of one, has other rules.
        ([PhaseRow(OTHER_CALLS, "host0", -5 * MS, 4000.0, 9, "why", 0)], "passed"),
        ([PhaseRow(OTHER_CALLS, "host0", 2000 * MS, 1000.0, 9, "why", 5, inside=True)], "passed"),
        ([PhaseRow(OTHER_CALLS, "host1", 2000 * MS, 1000.0, 9, "why", 5)], "passed"),
        ([PhaseRow("run-up", "host0", 2000 * MS, 1000.0, 9, "why", 5)], "passed"),
        ([], "passed"),
    ],
)
def test_only_what_comes_again_between_steps_counts(phases, status):
    assert outcome(growing(10), phases).status == status


@pytest.mark.parametrize(
    ("rows", "cases"),
    [
        (growing(10, by=3), {"grows"}),
        ([*growing(3), *growing(4, first=30, at=2500)], {"grows"}),
        # Sizes of any length, and shrinking ones.
        (
            [
                row
                for at, first in enumerate((60, 75, 61, 90, 64))
                for row in growing(1, first=first, at=2000 + at)
            ],
            {"batch"},
        ),
        (growing(10, by=-1), {"batch"}),
        (growing(RETURNS_FROM_STEPS, took=200.0), {"batch"}),
    ],
)
def test_advice_on_what_grows_is_given_where_it_grows_steadily(rows, cases):
    rows = [replace(row, duration_ms=200.0) for row in rows]
    assert outcome(rows).cases == cases


def test_a_list_of_losses_alone_is_not_advised_to_pad_its_batches():
    """`jnp.mean(jnp.stack(history))`: "give all batches one shape" stood before what fits, of another rule."""
    rows = [replace(compiled("first"), step=0)]
    rows += [
        replace(
            compiled("shape", step=at),
            cause=Cause("shape", f"an input changed: a f32[{at}] became f32[{at + 1}]"),
        )
        for at in range(1, 9)
    ]
    given_ = given(
        steps=steps(10), step_ms=100.0, compile_share=0.5, framework="jax", phases=[], records_if_noted=[],
        report={"compiles": rows}, after_capture=None, tracing_hidden_ms=0.0, uncut_steps=[], cutting_reads=[],
    )  # fmt: skip
    assert outcome_of(find_rule("recompiles-shape"), given_).cases == {"kept"}
