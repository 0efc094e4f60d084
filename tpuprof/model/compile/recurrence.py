"""Whether a compile of the captured steps comes again, from what the process counted before and after them.

A compile that never comes again belongs to the start of the run, whatever step it fell into: the first evaluation, the
first short batch, the second shape of an accumulation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpuprof.decode.torch_trace import TracedProgram
from tpuprof.json_notes import read_json
from tpuprof.model.compile.compiles import Compile
from tpuprof.model.median import median
from tpuprof.model.steps import Steps
from tpuprof.model.steps.phase import ONE_OFF_COMPILE, Phase
from tpuprof.model.steps.table import StepSource
from tpuprof.model.telemetry import StepRecord, compile_frames, note_damage
from tpuprof.records import record
from tpuprof.run_folder import CLASSES_PER_DOUBLING, aftermath_files
from tpuprof.units import MS_PER_S, NS_PER_S, PS_PER_S, PS_PER_US, counted

# Steps after the capture without a compile from which a compile counts as one that does not come again (steps), and as
# a multiple of the captured steps: a compile every eighth step would have shown with 93 % in twenty.
MIN_STEPS_AFTER = 20
AFTER_PER_CAPTURED = 2
# Captured steps that compile from which the capture alone shows that compiles return, with at least half of all.
RETURNS_FROM_STEPS = 3
# Compiles of a line before the capture from which one or two such steps show it too (compiles): a line compiles a few
# programs when it first runs, and not ten. A judgement.
RETURNS_FROM_BEFORE = 10
# Captured steps that compile from which, with half of them in the capture's second half, compiles keep coming (steps):
# a finite set of shapes compiles less and less often. A judgement.
STEADY_FROM_STEPS = 8
# Share of what a step with compiles takes beyond the usual one from which those may explain it (share): to trace a
# program and to hand it over for the first time may take three times as long as to compile it. A first log of weights
# took 1.9 s and compiled for 21 ms; it comes again with each log. A judgement.
EXPLAINS_FROM_SHARE = 0.25
# Steps that must be left when those with one-off compiles are left out (steps).
MIN_STEPS_LEFT = 3
# Most of steps' time that compiling is taken for (share): compilers on several threads add up to more than passed.
MOST_OF_ALL = 0.99
UNKNOWN_LINE = "unknown"
# The kind of cause of a compile that made a program which there was.
AGAIN = "again"
# Where steps come from in a recording that follows none.
_UNMARKED = (StepSource.CALLS, StepSource.PROGRAMS, StepSource.OPS, StepSource.READS, StepSource.EAGER_READS)


class Returns(StrEnum):
    """Whether compiles of the captured steps come again."""

    NEVER = "never"
    YES = "yes"
    UNKNOWN = "unknown"


@record(frozen=True)
class CompilingLine:
    """Compiles of one line after the capture: steps that compiled, their seconds, Python frames, the first steps.

    Notes of older versions count each cut of such a step in `cuts`.
    """

    cuts: int
    graphs: int
    seconds: float
    frames: list[str] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    @property
    def last_and_gap(self) -> tuple[int, int] | None:
        """The last step that compiled, and the longest way to one from the one before; None where not all are known."""
        if not self.steps or len(self.steps) < self.cuts:
            return None
        return self.steps[-1], max(later - before for before, later in pairwise([-1, *self.steps]))


@record(frozen=True)
class Stage:
    """Steps in a row after the capture that compiled nothing: the first one's number, how many, their time (s)."""

    first: int
    steps: int
    seconds: float


@record(frozen=True)
class LongSteps:
    """Steps twice as long as the usual one, among the `judged` ones, which compile nothing. Times in seconds.

    `numbers` are those of the first ones. `stacks` says how often each stack was seen in them after the usual time was
    over: the frames of `instrument.stack_frames.user_frames`, one per line.
    """

    judged: int = 0
    judged_seconds: float = 0.0
    usual_seconds: float = 0.0
    steps: int = 0
    seconds: float = 0.0
    numbers: list[int] = field(default_factory=list)
    stacks: dict[str, int] = field(default_factory=dict)


@record(frozen=True)
class AfterCapture:
    """What the process counted after the captured steps, until `ended` or its last note. Times in seconds.

    `steps_seconds` is the time until the last step ended, None in notes of older versions.
    `estimated` tells that no step was seen there, and that `steps` are so many as fit into its time. `lengths` is how
    many steps are of each class (`run_folder.CLASSES_PER_DOUBLING`), `stages` are the stretches between steps that
    compile, the first sixteen, `long` is of steps far longer than their like: all are empty in notes of older versions.
    """

    steps: int
    compiling_steps: int
    graphs: int
    seconds: float
    wall_seconds: float
    ended: bool
    lines: dict[str, CompilingLine] = field(default_factory=dict)
    estimated: bool = False
    steps_seconds: float | None = None
    lengths: dict[int, int] = field(default_factory=dict)
    stages: list[Stage] = field(default_factory=list)
    long: LongSteps = field(default_factory=LongSteps)

    def share_of_longer(self, took_ps: float) -> float | None:
        """Share of the steps whose lengths were noted that took at least so long; None where too few were."""
        noted = sum(self.lengths.values())
        if noted < MIN_STEPS_AFTER:
            return None
        least = CLASSES_PER_DOUBLING * math.log2(max(took_ps / PS_PER_US, 1.0))
        return sum(count for length, count in self.lengths.items() if length >= least) / noted

    @property
    def steps_text(self) -> str:
        """How many steps followed, in words."""
        return ("about " if self.estimated else "") + counted(self.steps, "step")

    @property
    def took(self) -> float:
        """The time of these steps (s). What came after the last one is in it in notes of older versions."""
        return self.wall_seconds if self.steps_seconds is None else self.steps_seconds

    @property
    def compile_share(self) -> float:
        """Share of the time of these steps that compiling took, below 1; 0 where no time was counted."""
        return min(self.seconds / self.took, MOST_OF_ALL) if self.took > 0 else 0.0

    def stopped(self, line: CompilingLine, captured: int) -> bool:
        """Whether a line has compiled what it compiles: no step of many that followed compiled for it.

        They are as many as `shows` asks for, and twice those that it took from one compile to the next.
        """
        known = line.last_and_gap
        if known is None or self.estimated:
            return False
        last, gap = known
        quiet = self.steps - 1 - last
        return quiet >= max(MIN_STEPS_AFTER, AFTER_PER_CAPTURED * max(captured, gap))

    def lines_of(self, line: str) -> list[CompilingLine]:
        """Those of a line (its innermost user frame) and those without one, which may be of any; of none, all."""
        return [each for name, each in self.lines.items() if not line or name in (line, UNKNOWN_LINE)]

    def behind(self, records: Sequence[StepRecord]) -> AfterCapture:
        """The same with the steps between the captured ones and these: records of their own tell of them."""
        lines = dict(self.lines)
        stages = self.stages
        if stages:
            from tpuprof.model.compile.stages import with_steps_before

            stages = with_steps_before(stages, records)
        # Steps are numbered from the first one after the captured ones.
        for name, each in lines.items():
            lines[name] = replace(each, steps=[len(records) + step for step in each.steps])
        for at in reversed(range(len(records))):
            for line, seconds in records[at].line_seconds.items():
                known = lines.get(line or UNKNOWN_LINE, CompilingLine(0, 0, 0.0, records[at].frames))
                graphs = records[at].lines.get(line, 1)
                lines[line or UNKNOWN_LINE] = CompilingLine(
                    known.cuts + 1,
                    known.graphs + graphs,
                    known.seconds + seconds,
                    known.frames,
                    [at, *known.steps],
                )
        wall = sum(each.wall_ns for each in records) / NS_PER_S
        return replace(
            self,
            steps=self.steps + len(records),
            compiling_steps=self.compiling_steps + sum(bool(each.compiles) for each in records),
            graphs=self.graphs + sum(each.compiles for each in records),
            seconds=self.seconds + sum(each.compile_seconds for each in records),
            wall_seconds=self.wall_seconds + wall,
            steps_seconds=None if self.steps_seconds is None else self.steps_seconds + wall,
            lines=lines,
            stages=stages,
        )

    def ended_compiling(self, captured: int, line: str = "") -> bool:
        """Whether steps compiled after the capture for this line, or for any, and then none of many."""
        lines = self.lines_of(line)
        return bool(lines) and all(self.stopped(each, captured) for each in lines)

    def shows(self, captured: int) -> bool:
        """Whether so many steps followed that a compile which returns would have been seen."""
        return self.steps >= max(MIN_STEPS_AFTER, AFTER_PER_CAPTURED * captured)


@record(frozen=True)
class History:
    """Notes of the process on its steps, captured or not, and on what came after; all may be missing."""

    records: list[StepRecord] = field(default_factory=list)
    after: AfterCapture | None = None
    # What TORCH_TRACE logged of programs, where it was on.
    programs: list[TracedProgram] = field(default_factory=list)
    # How many gradients are added up that no optimizer uses, by shape.
    unused_gradients: dict[tuple[int, ...], int] = field(default_factory=dict)
    # Whether the process is known to have had gradient checkpointing at hand.
    checkpoints: bool = False
    # Whether the process is known to have run eager ops at once, and not to have deferred them.
    ops_at_once: bool = False
    # Where the training thread was after a recording by the clock (`capture.later_looks`); empty where nobody looked.
    looks: dict[str, Any] = field(default_factory=dict)
    # Notes of the process that could not be read.
    damaged: list[str] = field(default_factory=list)

    @property
    def walls_ms(self) -> dict[int, float]:
        """How long each noted step took without its compiles (ms), by its number."""
        return {
            each.step: each.wall_ms - each.compile_seconds * MS_PER_S for each in self.records if each.is_step
        }

    def with_all_after(self) -> History:
        """The same, where what came after the captured steps begins right behind them.

        While a capture looks for a steadier part of training, the steps behind the captured ones have records.
        """
        last = max((row for row, each in enumerate(self.records) if each.captured), default=len(self.records))
        behind = [each for each in self.records[last + 1 :] if each.is_step]
        if self.after is None or self.after.estimated or not behind:
            return self
        return replace(self, after=self.after.behind(behind))

    def in_steps_like(self, steps: Steps) -> History:
        """The same; where the process saw no step after a recording by the clock, as many as the captured ones fill."""
        after, mean = self.after, float(steps.wall_ps.mean()) if len(steps) else 0.0
        if (
            after is None
            or not mean
            or steps.source not in _UNMARKED
            or any(each.is_step for each in self.records)
        ):
            return self
        count = int(after.wall_seconds * PS_PER_S / mean)
        # Compiles in reads are counted together, when the process cuts the graph or ends.
        compiles = (
            after.graphs
            if steps.source is StepSource.READS
            else sum(each.cuts for each in after.lines.values())
        )
        compiling = min(compiles, count)
        return replace(self, after=replace(after, steps=count, compiling_steps=compiling, estimated=True))


def occasions(lines: Iterable[CompilingLine]) -> int:
    """How often steps after the capture compiled for these lines; two steps in a row are one occasion.

    The last, short batch of an epoch and the evaluation behind it are two such steps. Of lines whose steps are not all
    known each compile is one.
    """
    lines = list(lines)
    found, last = 0, -2
    for step in sorted({step for each in lines for step in each.steps}):
        if step - last > 1:
            found, last = found + 1, step
    return max(found, *(each.cuts for each in lines if len(each.steps) < each.cuts), 0)


def read_after(run_folder: Path | None, host: str, damaged: list[str] | None = None) -> AfterCapture | None:
    """What the run folder has of the time after the capture, None where nothing of it can be read (`damaged`)."""
    if run_folder is None:
        return None
    for path in aftermath_files(run_folder, host):
        try:
            return _after_of(read_json(path))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            note_damage(damaged, path, "it cannot be read")
    return None


def _after_of(row: dict[str, Any]) -> AfterCapture:
    return AfterCapture(
        steps=int(row["steps"]),
        compiling_steps=int(row["compiling_steps"]),
        graphs=int(row["graphs"]),
        seconds=float(row["seconds"]),
        wall_seconds=float(row.get("wall_seconds", 0.0)),
        ended=bool(row.get("ended")),
        steps_seconds=float(row["steps_seconds"]) if "steps_seconds" in row else None,
        lines={
            str(name): CompilingLine(
                int(each["cuts"]),
                int(each["graphs"]),
                float(each["seconds"]),
                [str(frame) for frame in each.get("frames", ())],
                [int(step) for step in each.get("steps", ())],
            )
            for name, each in row.get("lines", {}).items()
        },
        lengths={int(length): int(count) for length, count in row.get("lengths", {}).items()},
        stages=[
            Stage(int(each["first"]), int(each["steps"]), float(each["seconds"]))
            for each in row.get("stages", ())
        ],
        long=_long_steps_of(row["long"]) if "long" in row else LongSteps(),
    )


def _long_steps_of(row: dict[str, Any]) -> LongSteps:
    return LongSteps(
        judged=int(row["judged"]),
        judged_seconds=float(row["judged_seconds"]),
        usual_seconds=float(row["usual_seconds"]),
        steps=int(row["steps"]),
        seconds=float(row["seconds"]),
        numbers=[int(each) for each in row["numbers"]],
        stacks={str(stack): int(times) for stack, times in row["stacks"].items()},
    )


def late_of(compiling: Iterable[int], numbers: NDArray[np.int64]) -> int:
    """How many of the steps that compiled (numbers) lie in the second half of all captured ones."""
    if not len(numbers):
        return 0
    middle = (int(numbers.min()) + int(numbers.max())) / 2
    return sum(number > middle for number in compiling)


def are_regular(compiling: Iterable[int], numbers: NDArray[np.int64]) -> bool:
    """Whether steps that compiled (numbers) are as far from each other, and are all along the captured ones.

    A weight that a schedule raises every ten steps makes a program each time. What compiles for each shape that comes
    up does so less and less often, and at no steady rate.
    """
    found = sorted(set(compiling))
    if len(found) < RETURNS_FROM_STEPS:
        return False
    gaps = {later - before for before, later in pairwise(found)}
    at_the_ends = max(found[0] - int(numbers.min()), int(numbers.max()) - found[-1])
    return len(gaps) == 1 and min(gaps) > 1 and at_the_ends <= max(gaps)


def returns(
    line: str,
    compiling: int,
    captured: int,
    after: AfterCapture | None,
    before: int = 0,
    late: int = 0,
    again: int = 0,
    regular: bool = False,
) -> Returns:
    """Whether compiles of a line (its innermost user frame, empty where unknown) come again.

    `compiling` of the `captured` steps compiled, `late` of them in the capture's second half. The line compiled
    `before` times ahead of them. `again` of these steps compiled a program that there was: that does not end with a set
    of shapes, or of numbers. `regular` says that they come at a steady rate.
    """
    if after is not None and _cuts_of(line, after):
        return Returns.NEVER if after.ended_compiling(captured, line) else Returns.YES
    if after is not None and after.shows(captured):
        return Returns.NEVER
    often = compiling >= RETURNS_FROM_STEPS or (compiling and before >= RETURNS_FROM_BEFORE)
    if often and 2 * compiling >= captured:
        return Returns.YES
    if again >= RETURNS_FROM_STEPS or (regular and after is None):
        return Returns.YES
    # What followed without a compile is no longer than it took from one to the next in the capture, twice over.
    goes_on = after is None or after.steps * compiling <= AFTER_PER_CAPTURED * captured
    # An odd one may lie in the middle.
    if compiling >= STEADY_FROM_STEPS and 2 * late + 1 >= compiling and goes_on:
        return Returns.YES
    return Returns.UNKNOWN


def rate(line: str, captured_rate: float, captured: int, after: AfterCapture | None) -> float:
    """Share of steps in which compiles of a line come, as counted after the capture where that is long enough."""
    if after is None or not after.shows(captured):
        return captured_rate
    return min(_cuts_of(line, after) / after.steps, 1.0)


def _cuts_of(line: str, after: AfterCapture) -> int:
    """Steps after the capture that compiled for this line; those without a line may be of any."""
    return sum(each.cuts for each in after.lines_of(line)) if line else after.compiling_steps


def numbers_of(steps: Steps) -> list[int]:
    """Numbers of all steps, those included that are left out for a compile."""
    return [*steps.number.tolist(), *(each.step for each in steps.phases if each.name == ONE_OFF_COMPILE)]


def without_one_off(steps: Steps, compiles: list[Compile], history: History) -> tuple[Steps, list[Compile]]:
    """Steps without those that hold only compiles which never came again; such a step becomes a phase."""
    after = history.after
    rows = sorted({each.step for each in compiles if each.step is not None})
    if after is None or not rows:
        return steps, compiles
    noted = compile_frames(history.records, steps.number.tolist())
    own = {
        each.step: each.frames for each in sorted(compiles, key=lambda each: each.duration_ps) if each.frames
    }
    frames = {row: [*own.get(row, ()), *noted.get(int(steps.number[row]), ()), ""] for row in rows}
    lines = {row: frames[row][0] for row in rows}
    never = [row for row in rows if returns(lines[row], len(rows), len(steps), after) is Returns.NEVER]
    others = np.setdiff1d(np.arange(len(steps)), rows)
    usual = median(steps.wall_ps[others]) if len(others) else None
    once = [row for row in never if usual is None or _explains(steps, row, usual, compiles)]
    if not once or len(steps) - len(once) < MIN_STEPS_LEFT:
        return steps, compiles
    kept = np.setdiff1d(np.arange(len(steps)), once)
    phases = [_phase(steps, row, compiles, seen_after_capture(lines[row], after)) for row in once]
    left = steps.only(kept, phases=tuple(sorted([*steps.phases, *phases], key=lambda each: each.start)))
    place = {int(row): at for at, row in enumerate(kept)}
    moved = [replace(each, step=place.get(each.step) if each.step is not None else None) for each in compiles]
    return left, moved


def _explains(steps: Steps, row: int, usual: float, compiles: list[Compile]) -> bool:
    """Whether its compiles may explain what a step takes beyond the usual one (ps), as those of unknown time may.

    Else it holds work that comes again.
    """
    took = sum(each.duration_ps for each in compiles if each.step == row)
    return not took or took >= EXPLAINS_FROM_SHARE * (int(steps.wall_ps[row]) - usual)


def _phase(steps: Steps, row: int, compiles: list[Compile], seen_after: str) -> Phase:
    count = sum(each.step == row for each in compiles)
    evidence = f"{counted(count, 'compile')} in this step; {seen_after}"
    number = int(steps.number[row])
    return Phase(ONE_OFF_COMPILE, int(steps.start[row]), int(steps.end[row]), 0, evidence, number)


def seen_after_capture(line: str, after: AfterCapture) -> str:
    """What was seen after the capture of compiles of a line, in words, where none of many steps compiled at last."""
    lasts = [each.last_and_gap for each in after.lines_of(line)] if _cuts_of(line, after) else []
    last = max((each[0] for each in lasts if each is not None), default=None)
    if last is None:
        return f"none came again in {after.steps_text} after"
    quiet = counted(after.steps - 1 - last, "step")
    return f"{after.compiling_steps} of {after.steps_text} after compiled, and none of the last {quiet}"
