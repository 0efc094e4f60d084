"""Programs that compile after the capture because they were changed: their steps take another time from there on."""

from dataclasses import replace

import numpy as np
import pytest

from tpuprof.model.compile.no_finding import compiled_without_finding
from tpuprof.model.compile.recurrence import (
    MIN_STEPS_AFTER,
    AfterCapture,
    CompilingLine,
    Stage,
)
from tpuprof.model.compile.stages import (
    MUCH_LONGER_FROM,
    OTHER_FROM,
    changed_each_time,
    said_of_stages,
    stages_of,
)
from tpuprof.model.outside_capture import outside_capture, outside_of, said_with_the_verdict
from tpuprof.model.telemetry import StepRecord


def counted(ms=(44, 104, 128), steps=(48, 59, 99), rest=0):
    """Steps of these times, each stretch behind one that compiles for 5 s; `rest` steps follow that are of none."""
    stages, at, compiled = [], 0, []
    for index, (each, count) in enumerate(zip(ms, steps, strict=True)):
        if index:
            compiled.append(at)
            at += 1
        stages.append(Stage(at, count, each * count / 1_000))
        at += count
    took = sum(each.seconds for each in stages) + 5.0 * len(compiled)
    line = CompilingLine(len(compiled), len(compiled), 5.0 * len(compiled), ["f (train.py:7)"], compiled)
    return AfterCapture(
        at + rest, len(compiled), len(compiled), line.seconds, took, True, {"f (train.py:7)": line},
        steps_seconds=took, stages=stages,
    )  # fmt: skip


def changed(after):
    (line,) = after.lines.values()
    return changed_each_time(line, after)


def test_images_that_grow_compile_once_for_each_size():
    """Training went from 32 to 48 and 64 pixels: "unknown whether compiles come again" was its only finding."""
    after = counted()
    assert changed(after)
    assert said_of_stages(after) == (
        ": 44.0 ms at first, 104 ms from step 50 after it on, 128 ms from step 110 after it on, each since a compile"
    )
    assert compiled_without_finding(after, 8) == (
        "2 of 208 steps after the capture compiled at train.py:7: 10.0 s, 32 % of that time. "
        "Steps take another time since each, so it counts as start-up cost"
    )


def test_the_warning_of_slower_steps_says_that_other_programs_run_there():
    (said,) = outside_capture(np.full(8, 44 * 10**9, np.int64), counted())
    assert "each since a compile; the captured ones took 44.0 ms" in said
    assert said.endswith("is not in this capture: other programs run there. Capture them later (`--warmup`)")
    verdict = said_with_the_verdict([outside_of(np.full(8, 44 * 10**9, np.int64), counted())])
    assert verdict.endswith("each since a compile. Other programs run there, which this capture lacks.")
    (said,) = outside_capture(np.full(8, 44 * 10**9, np.int64), counted((104, 104, 104)))
    assert "since a compile" not in said and "batches may have been ready" in said


@pytest.mark.parametrize(("ratio", "other"), [(OTHER_FROM - 0.01, False), (OTHER_FROM + 0.01, True)])
@pytest.mark.parametrize("slower", [True, False])
def test_compiles_of_one_program_are_no_change_of_it(ratio, other, slower):
    """A learning rate that is a constant of the graph compiles again in each epoch, and steps take what they took."""
    ms = (100, 100 * ratio) if slower else (100 * ratio, 100)
    assert changed(counted(ms, (50, 50))) is other


@pytest.mark.parametrize(
    "after",
    [
        counted((44, 104, 104)),
        counted((44, 104), (48, MIN_STEPS_AFTER - 1)),
        # More compiles than stretches that are kept.
        counted(rest=3),
        replace(counted(), estimated=True),
        replace(counted(), stages=[]),
    ],
)
def test_what_is_not_known_is_no_change(after):
    assert not changed(after)
    assert said_of_stages(after) == ""


def test_two_graphs_of_one_change_are_one():
    after = counted()
    (line,) = after.lines.values()
    twice = replace(line, cuts=3, graphs=3, steps=[48, 49, 108])
    stages = [after.stages[0], Stage(49, 0, 0.0), *after.stages[1:]]
    after = replace(after, steps=209, compiling_steps=3, lines={"f": twice}, stages=stages)
    assert len(stages_of(after)) == 3 and changed(after)


def test_a_line_that_compiles_at_the_end_is_not_known():
    """An evaluation behind training: whether it comes again, nothing tells, and the change of the program stays one."""
    after = counted()
    last = CompilingLine(1, 1, 3.0, ["g (train.py:9)"], [208])
    after = replace(after, steps=209, compiling_steps=3, lines={**after.lines, "g": last})
    assert [changed_each_time(each, after) for each in after.lines.values()] == [True, False]
    unknown = replace(last, cuts=40, steps=[0])
    assert not changed_each_time(unknown, after)


def test_steps_that_have_notes_lie_before_the_first_stretch():
    """A capture that looks for a steadier part of training leaves notes of the steps behind it."""
    records = [StepRecord(at, 10**7, captured=False, compiles=int(at == 5)) for at in range(20)]
    found = counted().behind(records)
    assert found.stages[0] == Stage(0, 5, pytest.approx(0.05))
    assert found.stages[1] == Stage(6, 14 + 48, pytest.approx(0.14 + 48 * 0.044))
    assert found.stages[2:] == [Stage(20 + 49, 59, 59 * 0.104), Stage(20 + 109, 99, 99 * 0.128)]


def soon(before=28, since=307, count=47, steps=2):
    """Two steps like the captured ones of 28 ms, compiles in nine of the next ones, and then longer steps."""
    after = counted((before, 300, since), (steps, 3, count))
    unknown = replace(after.lines["f (train.py:7)"], frames=[])
    return replace(after, lines={**after.lines, "unknown": unknown})


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (soon(), ": 307 ms from step 8 after it on, since a compile"),
        # Steps were longer before the compile already, or are little longer than those captured, or too few to tell.
        (soon(before=35), ""),
        (soon(since=28 * MUCH_LONGER_FROM - 1), ""),
        (soon(count=MIN_STEPS_AFTER - 1), ""),
        (soon(steps=0), ""),
        (replace(soon(), estimated=True), ""),
    ],
)
def test_another_optimizer_that_takes_over_soon_runs_other_programs(after, said):
    """Adam was captured for 14 steps, and L-BFGS came two steps later: loaders and checkpoints were said to be why."""
    assert said_of_stages(after, 28.0) == said
    (warning,) = outside_capture(np.full(8, 28 * 10**9, np.int64), after) or [""]
    assert ("Capture them later (`--warmup`)" in warning) is bool(said)


def test_compiles_outside_of_graph_cuts_are_said_beside_the_line_that_is_known():
    """Of 68 graphs 61 compiled in reads of L-BFGS: all 27.8 s were said of the line of the cut."""
    after = soon()
    assert "at train.py:7: " in compiled_without_finding(after, 8)
    line = after.lines["unknown"]
    for seconds, told in (
        (10.1, " and for longer outside of graph cuts (in reads of values, for example): "),
        (9.9, ": "),
    ):
        lines = {**after.lines, "unknown": replace(line, seconds=seconds)}
        assert f"at train.py:7{told}" in compiled_without_finding(replace(after, lines=lines), 8)
    only = compiled_without_finding(replace(after, lines={"unknown": line}), 8)
    assert "compiled outside of graph cuts (in reads of values, for example): " in only
