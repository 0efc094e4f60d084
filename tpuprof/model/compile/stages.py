"""Stretches of steps after the capture that take times of their own, each since a compile: the program was changed.

So it is where images or sequences grow in the course of training, or layers begin to train. The compile between two
of them does not come again: what is computed is another thing from there on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from tpuprof.model.compile.recurrence import MIN_STEPS_AFTER, AfterCapture, CompilingLine, Stage
from tpuprof.model.telemetry import StepRecord
from tpuprof.report.between import SINCE_A_COMPILE
from tpuprof.units import MS_PER_S, NS_PER_S, format_ms, listed

# How much longer or shorter steps of one stretch are than those of the one before (ratio). Blocks of 1.5 s of one
# program differ by 2 % on a machine that does little else, and by a tenth on a busy one. A judgement.
OTHER_FROM = 1.2
# How much longer than captured steps those of the last stretch take where nothing else tells that the program was
# changed (ratio): a loader that falls behind after a compile, by chance, rarely makes twice of a step. A judgement.
MUCH_LONGER_FROM = 2.0
# Stretches that are named (stretches).
NAMED = 4


def stages_of(after: AfterCapture) -> list[Stage]:
    """The stretches, two at least; empty where a compile came without a change of what steps take.

    Shorter ones than tell a mean are left out, as between the two graphs of a program that was changed. So is what
    follows the first ones, where only those were kept.
    """
    long = [each for each in after.stages if each.steps >= MIN_STEPS_AFTER]
    if len(long) < 2 or not is_all_told(after):
        return []
    means = [each.seconds / each.steps for each in long]
    other = all(max(a, b) >= OTHER_FROM * min(a, b) for a, b in pairwise(means))
    return long if other else []


def is_all_told(after: AfterCapture) -> bool:
    """Whether each step is of a stretch or compiled, and was counted."""
    return (
        not after.estimated
        and sum(each.steps for each in after.stages) + after.compiling_steps == after.steps
    )


def changed_each_time(line: CompilingLine, after: AfterCapture) -> bool:
    """Whether steps take another time since each compile of a line: the program was changed there, and goes on so."""
    found = stages_of(after) if line.last_and_gap is not None else []
    return bool(found) and line.steps[-1] < found[-1].first


def with_steps_before(stages: Sequence[Stage], records: Sequence[StepRecord]) -> list[Stage]:
    """The stretches where notes tell of steps right before them."""
    found = [Stage(0, 0, 0.0)]
    for at, each in enumerate(records):
        if each.compiles:
            found.append(Stage(at + 1, 0, 0.0))
        else:
            last = found[-1]
            found[-1] = Stage(last.first, last.steps + 1, last.seconds + each.wall_ns / NS_PER_S)
    last, (first, *others) = found[-1], stages
    found[-1] = Stage(last.first, last.steps + first.steps, last.seconds + first.seconds)
    return found + [replace(each, first=len(records) + each.first) for each in others]


def changed_soon(after: AfterCapture, captured_ms: float) -> Stage | None:
    """The last stretch, where the program was changed soon after the capture: before a stretch was long enough.

    The steps up to the compile take what captured ones do (`captured_ms`), and those of the last stretch much longer:
    another optimizer takes over after a few steps, say. None where nothing shows that.
    """
    if len(after.stages) < 2 or not is_all_told(after):
        return None
    first, last = after.stages[0], after.stages[-1]
    if not first.steps or last.steps < MIN_STEPS_AFTER:
        return None
    before, since = (MS_PER_S * each.seconds / each.steps for each in (first, last))
    return last if before < OTHER_FROM * captured_ms and since >= MUCH_LONGER_FROM * captured_ms else None


def said_of_stages(after: AfterCapture, captured_ms: float = 0.0) -> str:
    """What steps of each stretch take, as an insertion; empty where they take the same as captured ones do."""
    found = stages_of(after)
    if not found:
        last = changed_soon(after, captured_ms)
        return f": {_mean(last)} from step {last.first + 1} after it on, {SINCE_A_COMPILE}" if last else ""
    first, *others = found
    times = [f"{_mean(each)} from step {each.first + 1} after it on" for each in others]
    each = "each " if len(others) > 1 else ""
    return f": {listed([f'{_mean(first)} at first', *times], NAMED, 'more time')}, {each}{SINCE_A_COMPILE}"


def _mean(stage: Stage) -> str:
    return format_ms(stage.seconds / stage.steps * MS_PER_S)
