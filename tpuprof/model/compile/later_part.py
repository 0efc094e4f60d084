"""Another part of training that begins after the capture: a second loop, whose steps compare with no captured one.

A program may train twice: first all of a model, then its head. Notes of steps after the capture are of both.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from tpuprof.model.compile.recurrence import (
    MIN_STEPS_AFTER,
    AfterCapture,
    CompilingLine,
    History,
    LongSteps,
    Stage,
)
from tpuprof.model.compile.stages import OTHER_FROM, is_all_told
from tpuprof.model.host.samples import HostSamples
from tpuprof.records import record
from tpuprof.report.between import NOT_CAPTURED, SINCE_A_COMPILE
from tpuprof.report.user_frames import Function, user_functions
from tpuprof.units import MS_PER_S, format_ms

if TYPE_CHECKING:
    from tpuprof.model.later_places import LaterPlace
    from tpuprof.model.long_later import LongLater

# Share of the sampled time that a function must hold to be what runs the captured steps (share): what the loop does
# between them, and samples at the ends, are the rest. A judgement.
RUNS_STEPS_FROM_SHARE = 0.9
# Share of the steps after the capture from which another part is worth a word in the verdict (share): more than half.
MOST_FROM_SHARE = 0.5


@record(frozen=True)
class LaterPart:
    """Steps from `first` after the capture on, of `counted` counted there: run by `function`, `mean_ms` each.

    From the step `quiet` on none compiles.
    """

    first: int
    steps: int
    counted: int
    mean_ms: float
    function: str
    quiet: int

    @property
    def is_most(self) -> bool:
        """Whether most of the steps after the capture are in it."""
        return self.steps >= MOST_FROM_SHARE * self.counted

    @property
    def text(self) -> str:
        """`198 of 219 steps after the capture run in finetune (train.py:54), since a compile, and take 18.5 ms`."""
        return (
            f"{self.steps} of {self.counted} steps after the capture run in {self.function}, {SINCE_A_COMPILE}, and "
            f"take {format_ms(self.mean_ms)} each"
        )

    @property
    def warning(self) -> str:
        """What a report says of it."""
        return f"{self.text}. What they do {NOT_CAPTURED}: capture later steps (`--warmup`) as well"


def own_part(history: History, samples: HostSamples | None) -> tuple[History, LaterPart | None]:
    """The history with what was counted of the captured part of training alone, and the later part, None without one.

    It is another part where a compile before its steps is inside a function that the captured steps are not in, outside
    of one that they are in, and its steps are clearly shorter than those up to there. Longer ones may hold evaluations
    whose first one compiled.
    """
    after = history.after
    if after is None or samples is None or len(after.stages) < 2 or not is_all_told(after):
        return history, None
    last = after.stages[-1]
    # What compiled right before them.
    began = [each for each in after.lines.values() if last.first - 1 in each.steps]
    if not began or last.steps < MIN_STEPS_AFTER:
        return history, None
    runs, seen = _functions(samples)
    found = [(line, _new(line, runs, seen)) for line in began]
    cut, new = min(((line.steps[0], new) for line, new in found if new), default=(0, None))
    before = [each for each in after.stages if each.first + each.steps <= cut]
    if new is None or not _is_shorter(last, before):
        return history, None
    lines = {name: each for name, each in after.lines.items() if each.steps and each.steps[-1] < cut}
    if any(each.steps[0] < cut for name, each in after.lines.items() if name not in lines and each.steps):
        return history, None
    name, path, line = new
    later = LaterPart(
        first=cut,
        steps=after.steps - cut,
        counted=after.steps,
        mean_ms=last.seconds / last.steps * MS_PER_S,
        function=f"{name} ({path}:{line})",
        quiet=last.first,
    )
    return replace(history, after=_until(after, cut, before, lines)), later


def _functions(samples: HostSamples) -> tuple[set[Function], set[Function]]:
    """The user's functions that run the captured steps, and all that were seen."""
    times: Counter[int] = Counter()
    for row, length in zip(samples.stack.tolist(), (samples.end - samples.start).tolist(), strict=True):
        if row >= 0:
            times[row] += length
    held: Counter[Function] = Counter()
    for row, length in times.items():
        for function in user_functions(samples.stacks[row].frames):
            held[function] += length
    enough = RUNS_STEPS_FROM_SHARE * times.total()
    return {each for each, length in held.items() if length >= enough}, set(held)


def _new(line: CompilingLine, runs: set[Function], seen: set[Function]) -> tuple[str, str, str] | None:
    """The outermost function of a compile's stack that no sample saw, with its line.

    None where there is none, or where all functions that run the captured steps are there.
    """
    # Notes of compiles have the innermost frame first.
    there = user_functions(reversed(line.frames))
    if not runs - set(there):
        return None
    new = ((each, at) for each, (_, at) in there.items() if each not in seen)
    return next(((name, path, at) for (name, path, _), at in new), None)


def _is_shorter(last: Stage, before: list[Stage]) -> bool:
    """Whether steps of a stretch are clearly shorter than those up to it."""
    steps, seconds = sum(each.steps for each in before), sum(each.seconds for each in before)
    return bool(steps) and seconds / steps >= OTHER_FROM * last.seconds / last.steps


def _until(
    after: AfterCapture, cut: int, stages: list[Stage], lines: dict[str, CompilingLine]
) -> AfterCapture:
    """What was counted before a step."""
    compiled = sum(each.seconds for each in lines.values())
    took = sum(each.seconds for each in stages) + compiled
    return replace(
        after,
        steps=cut,
        compiling_steps=len({step for each in lines.values() for step in each.steps}),
        graphs=sum(each.graphs for each in lines.values()),
        seconds=compiled,
        wall_seconds=took,
        steps_seconds=took,
        lines=lines,
        lengths={},
        stages=stages,
        long=LongSteps(),
    )


def said_of_later_steps(parts: list[LaterPart | None], long: list[LongLater | LaterPlace | None]) -> str:
    """What the verdict adds of later steps: most are of another part, or some are far longer; else empty."""
    others = [each for each in parts if each is not None and each.is_most]
    text = ""
    if others:
        text = f" That is of the captured part of training: {max(others, key=lambda each: each.steps).text}."
    longer = [each for each in long if each is not None]
    return text + max(longer, key=lambda each: each.share).text if longer else text
