"""Whether long steps after the capture are at the lines that one captured step was at, and at what cost.

One captured step holds work that comes seldom. The mean of later steps tells how seldom, unless the machine is busier
or quieter then. Looks at the training thread in long later steps tell it as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from tpuprof.model.compile.recurrence import MIN_STEPS_AFTER
from tpuprof.model.host_run import HostRun
from tpuprof.model.long_later import AT_ONE_PLACE, NEVER_BEFORE, SAMPLES_FROM
from tpuprof.report.user_frames import user_functions
from tpuprof.units import MS_PER_S

# Name of a function, its file, and a line of it or nothing.
Place = tuple[str, str, str]


def later_cost(host: HostRun, row: int) -> float | None:
    """What later steps spend where the captured step in that row spent most of its own time (ms per step).

    None where long later steps were not looked at, or too seldom, and where the row's step is at no place of its own.
    """
    long = host.after_steps.long if host.after_steps is not None else None
    if long is None or long.judged < MIN_STEPS_AFTER or sum(long.stacks.values()) < SAMPLES_FROM:
        return None
    own = _own_places(host, row)
    if not own:
        return None
    looks = sum(times for stack, times in long.stacks.items() if own & _places(reversed(stack.split("\n"))))
    # Looks begin when the usual time is over.
    excess = long.seconds - long.steps * long.usual_seconds
    return MS_PER_S * looks / sum(long.stacks.values()) * excess / long.judged


def _own_places(host: HostRun, row: int) -> set[Place]:
    """Where the thread is for most of the sampled time of one step, and in no other step but by accident."""
    samples = host.activity.samples
    if samples is None or not samples.stacks:
        return set()
    start, end = int(host.steps.start[row]), int(host.steps.end[row])
    length = np.clip(np.minimum(samples.end, end) - np.maximum(samples.start, start), 0, None)
    inside: Counter[Place] = Counter()
    every: Counter[Place] = Counter()
    for index, stack in enumerate(samples.stacks):
        at = samples.stack == index
        for place in _places(stack.frames):
            inside[place] += int(length[at].sum())
            every[place] += int((samples.end - samples.start)[at].sum())
    beside = int((samples.end - samples.start).sum()) - int(length.sum())
    return {
        place
        for place, time in inside.items()
        if time >= AT_ONE_PLACE * int(length.sum()) and every[place] - time <= NEVER_BEFORE * beside
    }


def _places(frames: Iterable[str]) -> set[Place]:
    found: set[Place] = set()
    for (name, path, _), (_, line) in user_functions(frames).items():
        found |= {(name, path, ""), (name, path, line)}
    return found
