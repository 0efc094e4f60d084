"""Work that comes seldom: steps after the capture that take far longer than their like, and where the host is then.

A capture holds a few steps, and what a program does every hundredth step is in none of them. On a busy machine single
steps take longer as well. So this is said only where the trace's own steps are shorter on average, too, and where the
host is then at a line at which it never is in the captured steps, or such steps come at a steady rate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from tpuprof.model.compile.recurrence import MIN_STEPS_AFTER, AfterCapture, LongSteps
from tpuprof.model.host.samples import HostSamples
from tpuprof.model.intervals import Int64
from tpuprof.model.outside_capture import AS_LONG_FROM
from tpuprof.records import record
from tpuprof.report.user_frames import user_functions
from tpuprof.units import MS_PER_S, PS_PER_S, counted, format_ms, format_share, listed

# Share of the time after the capture that long steps must take beyond usual ones to be worth a word (share): that from
# which rules fail.
FROM_SHARE = 0.1
# Long steps from which they come again (steps).
AGAIN_FROM = 2
# Share of that excess by which the mean step must be longer than in the capture (share). A host that runs ahead of the
# device waits for it once in a while, and no step is shorter without. A judgement.
LONGER_BY = 0.5
# Share of the captured steps' samples up to which a place counts as one at which they never are (share): one in a
# hundred is an accident.
NEVER_BEFORE = 0.01
# Samples from which they say something (count), share of them that must be at such places, and of those the share that
# one place must have (share): most of them. Work that comes first in a long step leaves its usual part to be seen too:
# pictures took 260 of 391 ms, and were in two fifths of the samples. Judgements.
SAMPLES_FROM, ELSEWHERE_FROM, AT_ONE_PLACE = 4, 0.25, 0.5
# Share of the periods that must end with a long step, share of the long steps that must end one (share), and how many
# that are at least (steps): a busy machine adds some, and hides few. Judgements.
KEPT_FROM, PERIODIC_FROM, PERIODS_FROM = 0.75, 0.6, 3
# How many times the mean distance of long steps a capture must be long to hold one in most cases (ratio): 78 % of them
# where these come by chance.
OFTEN_ENOUGH = 1.5
# Where torch.profiler is in its package.
_TORCH_PROFILER = "/torch/profiler/"
# Lines of a function that are named (lines).
LINES_NAMED = 3


@record(frozen=True)
class LongLater:
    """`steps` of the `judged` steps after the capture that take `took_ms` on average, where usual ones take `usual_ms`.

    `share` is what they take beyond that of the time of the judged steps. They come `every` so many steps, 0 where
    that is unknown. `place` says where the training thread is for most of what they take more, `source` is its line
    (`file:line`); empty where samples do not tell.
    """

    steps: int
    judged: int
    took_ms: float
    usual_ms: float
    share: float
    every: int
    place: str
    source: str
    # Whether torch.profiler is at work there.
    profiles: bool = False

    @property
    def held_by(self) -> int:
        """How many steps a capture needs to hold such a step (steps): mostly, where they come at no steady rate."""
        return self.every + 1 if self.every else math.ceil(OFTEN_ENOUGH * self.judged / self.steps)

    @property
    def what(self) -> str:
        """`10 of 118 steps after the capture take longer (520 ms, the usual one 155 ms)`."""
        rate = f", one in {self.every}" if self.every else ""
        return (
            f"{self.steps} of {counted(self.judged, 'step')} after the capture take longer "
            f"({format_ms(self.took_ms)}, the usual step {format_ms(self.usual_ms)}{rate})"
        )

    @property
    def text(self) -> str:
        """What the verdict says of it."""
        at = f" Beside the usual work, the training thread is {self.place} then." if self.place else ""
        return f" {self.what}: {format_share(self.share)} of the time there. No captured step is as long.{at}"


def long_later(
    wall_ps: Int64, after: AfterCapture | None, samples: HostSamples | None, between_ps: int = 0
) -> LongLater | None:
    """Long steps after the capture of steps that took `wall_ps` each; None where they are few, or may be noise.

    `between_ps` is what lay between all captured steps.
    """
    if not len(wall_ps) or after is None or after.estimated or after.long.judged < MIN_STEPS_AFTER:
        return None
    long = after.long
    excess = long.seconds - long.steps * long.usual_seconds
    share = excess / long.judged_seconds
    if long.steps < AGAIN_FROM or share < FROM_SHARE or not _come_again(long, excess, wall_ps, between_ps):
        return None
    place, source = _place(long, samples)
    profiles = _profiles(long, source)
    place += " (in torch.profiler)" if profiles else ""
    every = _every(long.numbers)
    if not place and not every:
        return None
    took, usual = (MS_PER_S * each for each in (long.seconds / long.steps, long.usual_seconds))
    return LongLater(long.steps, long.judged, took, usual, min(share, 1.0), every, place, source, profiles)


def _come_again(long: LongSteps, excess: float, wall_ps: Int64, between_ps: int) -> bool:
    """Whether no captured step is as long, and the captured ones are shorter on average for the lack of these."""
    if float(wall_ps.max()) / PS_PER_S >= AS_LONG_FROM * long.seconds / long.steps:
        return False
    captured = (float(wall_ps.mean()) + between_ps / len(wall_ps)) / PS_PER_S
    # Recording makes steps of much Python longer, also the usual ones.
    captured /= max(float(np.median(wall_ps)) / PS_PER_S / long.usual_seconds, 1.0)
    return long.judged_seconds / long.judged - captured >= LONGER_BY * excess / long.judged


def _place(long: LongSteps, samples: HostSamples | None) -> tuple[str, str]:
    """Where most samples of long steps are that are at no place of the captured steps', in words, and the line.

    The innermost of the user's functions, else a line of one that runs all steps. Empty where there is none, and where
    the captured steps have no samples to compare with.
    """
    total = sum(long.stacks.values())
    if samples is None or not samples.stacks or total < SAMPLES_FROM:
        return "", ""
    before = Before(samples)
    functions: Counter[tuple[str, str]] = Counter()
    lines: Counter[tuple[str, str, str]] = Counter()
    depths: dict[tuple[str, str], int] = {}
    elsewhere = 0
    for stack, times in long.stacks.items():
        # The user's frames come first, innermost first.
        there = user_functions(reversed(stack.split("\n")))
        elsewhere += times * any(not before(name, path, line) for (name, path, _), (_, line) in there.items())
        for (name, path, _), (depth, line) in there.items():
            functions[name, path] += times
            lines[name, path, line] += times
            depths[name, path] = max(depths.get((name, path), 0), depth)
    if elsewhere < ELSEWHERE_FROM * total:
        return "", ""
    enough = AT_ONE_PLACE * elsewhere
    new = [each for each, times in functions.items() if times >= enough and not before(*each)]
    if new:
        name, path = max(new, key=lambda each: depths[each])
        places = [
            line for own, of, line in (each for each, _ in lines.most_common()) if (own, of) == (name, path)
        ]
        where = listed([f"{path}:{places[0]}", *places[1:]], LINES_NAMED, "more line")
        return f"in {name} ({where})", f"{path}:{places[0]}"
    at = [each for each, times in lines.items() if times >= enough and not before(*each)]
    if not at:
        return "", ""
    name, path, line = max(at, key=lambda each: depths[each[:2]])
    return f"at {path}:{line}", f"{path}:{line}"


def _profiles(long: LongSteps, source: str) -> bool:
    """Whether torch.profiler is at work in most looks at a line of the user's."""
    at = [(stack, times) for stack, times in long.stacks.items() if f"({source})" in stack.partition("\n")[0]]
    profiling = sum(times for stack, times in at if _TORCH_PROFILER in stack)
    return bool(source) and profiling > AT_ONE_PLACE * sum(times for _, times in at)


def places_of(frames: Iterable[str]) -> set[tuple[str, ...]]:
    """The user's functions of a stack (name, file), and the line that each is at (name, file, line)."""
    functions = user_functions(frames).items()
    return {place for (name, path, _), (_, line) in functions for place in ((name, path), (name, path, line))}


class Before:
    """Whether the captured steps' samples saw a function (name, file), or a line of it, for more than an accident.

    For some of the sampled time, or in some of the looks: of a framework whose calls are events, no time of a call
    is sampled.
    """

    def __init__(self, samples: HostSamples) -> None:
        length = samples.end - samples.start
        by_stack = np.bincount(
            samples.stack[samples.stack >= 0], length[samples.stack >= 0], len(samples.stacks)
        )
        looks = np.bincount(samples.seen[samples.seen >= 0], minlength=len(samples.stacks))
        self._time: Counter[tuple[str, ...]] = Counter()
        self._looks: Counter[tuple[str, ...]] = Counter()
        self._total, self._every = float(length.sum()), len(samples.seen)
        for row, stack in enumerate(samples.stacks):
            for place in places_of(stack.frames):
                self._time[place] += by_stack[row]
                self._looks[place] += int(looks[row])

    def __call__(self, *place: str) -> bool:
        """Whether it did."""
        of_time = self._time[place] > NEVER_BEFORE * self._total
        return of_time or self._looks[place] > NEVER_BEFORE * self._every


def _every(numbers: list[int]) -> int:
    """How many steps lie from one long step to the next, where most keep to that; else 0."""
    gaps = Counter(later - before for before, later in pairwise(numbers))
    period, _ = next(iter(gaps.most_common(1)), (0, 0))
    if period < 2:
        return 0
    ((offset, hits),) = Counter(number % period for number in numbers).most_common(1)
    own = [number for number in numbers if number % period == offset]
    whole = (own[-1] - own[0]) // period + 1
    keeps = hits >= PERIODIC_FROM * len(numbers) and hits >= KEPT_FROM * whole
    return period if keeps and hits >= PERIODS_FROM else 0
