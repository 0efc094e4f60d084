"""The verdict of a run whose captured steps hold none of the compiles that hold it up."""

from types import SimpleNamespace

import pytest

from tpuprof.analysis.sections.compiles_elsewhere import MOST_FROM_SHARE, compiles_elsewhere
from tpuprof.analysis.sections.why import decision_rows
from tpuprof.model.compile.recurrence import AfterCapture, CompilingLine
from tpuprof.model.compile_verdict import COMPILES_FROM_SHARE
from tpuprof.model.decisions import Decisions
from tpuprof.model.step_times import StepTimes
from tpuprof.run_folder import MANY_STEPS


def verdict(at=(0, 2, 4, 11, 41), share=0.9, steps=42, compiling=0.0, made=None, **more):
    count = len(at)
    lines = {"unknown": CompilingLine(count, count, share * 10.0, [], list(at))}
    after = AfterCapture(steps, count, count, share * 10.0, 10.0, True, lines, **more)
    # Four steps came before the eight captured ones.
    records = [SimpleNamespace(is_step=True, captured=row >= 4) for row in range(12)]
    host = SimpleNamespace(after=after, steps=range(8), records=records, looks={})
    parts = {"dispatch": 1.0, "compile": compiling}
    return compiles_elsewhere([host], StepTimes(2.0, parts, 0.0, 1.0, 0.0), made or Decisions())


def test_compiles_that_come_after_the_capture_hold_the_run_up():
    """TorchTPU: steps of 1.9 ms ran ahead of compiles of 271 ms each, and were "Dispatch-bound"."""
    found = verdict()
    assert (found.bound, found.share) == ("compile", 0.9)
    assert found.sentence.startswith(
        "Compile-bound: after the capture 5 of 42 steps compiled, which took 90 % of the time there. "
        "The captured steps take 2.00 ms each and hold no compile"
    )


@pytest.mark.parametrize(
    ("at", "others"),
    [
        ((0, 2, 4, 11, 41), "more steps (`--steps`)"),
        # Of ten, two come early: a quarter of them may.
        ((3, 20, *range(MANY_STEPS, 2 * MANY_STEPS, 7)), f"later steps (`--warmup {12 + MANY_STEPS}`)"),
        ((3, 20, *range(MANY_STEPS - 1, 2 * MANY_STEPS, 7)), "more steps (`--steps`)"),
        ((3, 20, 30, *range(MANY_STEPS, 2 * MANY_STEPS, 7)), "more steps (`--steps`)"),
    ],
)
def test_compiles_that_come_long_after_the_capture_need_a_later_one(at, others):
    """`1 - lr * weight_decay` became 1 in steps 126 to 136 behind the capture: "capture more steps", 50 of them."""
    assert verdict(at, steps=2 * MANY_STEPS).sentence.endswith(f"Capture {others}.")


@pytest.mark.parametrize(
    "less",
    [
        # Once: the last batch and an evaluation.
        {"at": (40, 41)},
        {"share": MOST_FROM_SHARE - 0.01},
        # The captured steps have compiles of their own.
        {"compiling": COMPILES_FROM_SHARE * 2.0},
        {"steps": 12},
        # Then none in many steps.
        {"at": (0, 2, 4), "steps": 100},
        {"estimated": True},
    ],
)
def test_else_the_captured_steps_have_their_verdict(less):
    assert verdict(**less) is None


def test_more_compiling_than_time_is_no_share_above_one():
    """Compilers on several threads add up."""
    assert verdict(share=1.8).share < 1


def test_a_host_without_a_count_leaves_it_open():
    host = SimpleNamespace(after=None, steps=range(8), looks={})
    assert compiles_elsewhere([host], StepTimes(2.0, {"dispatch": 1.0}, 0.0, 1.0, 0.0), Decisions()) is None


@pytest.mark.parametrize(("share", "holds"), [(0.9, True), (0.4, False)])
def test_the_decision_is_noted(share, holds):
    made = Decisions()
    verdict(share=share, made=made)
    (row,) = decision_rows(made.made, 2.0)
    assert (row.value, row.threshold, row.holds) == (share, MOST_FROM_SHARE, holds)
    assert row.changes_when.startswith("below 50 % (40 % less)" if holds else "from 50 % (10 % more)")
