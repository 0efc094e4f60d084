"""Whether long steps after the capture are at the lines that one captured step was at, and at what cost.

One captured step holds work that comes seldom. The mean of later steps tells how seldom, unless the machine is busier
or quieter then. Looks at the training thread in long later steps tell it as well.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tpuprof.model.compile.recurrence import MIN_STEPS_AFTER
from tpuprof.model.host_run import HostRun
from tpuprof.model.long_later import AT_ONE_PLACE, NEVER_BEFORE, SAMPLES_FROM, places_of
from tpuprof.units import MS_PER_S


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
    looks = sum(times for stack, times in long.stacks.items() if own & places_of(reversed(stack.split("\n"))))
    # Looks begin when the usual time is over.
    excess = long.seconds - long.steps * long.usual_seconds
    return MS_PER_S * looks / sum(long.stacks.values()) * excess / long.judged


def _own_places(host: HostRun, row: int) -> set[tuple[str, ...]]:
    """Where the thread is for most of the sampled time of one step, and in no other step but by accident."""
    samples = host.activity.samples
    if samples is None or not samples.stacks:
        return set()
    start, end = int(host.steps.start[row]), int(host.steps.end[row])
    whole = samples.end - samples.start
    own = np.clip(np.minimum(samples.end, end) - np.maximum(samples.start, start), 0, None)
    known = samples.stack >= 0
    inside, every = (
        np.bincount(samples.stack[known], length[known], len(samples.stacks)) for length in (own, whole)
    )
    here: Counter[tuple[str, ...]] = Counter()
    beside: Counter[tuple[str, ...]] = Counter()
    for index, stack in enumerate(samples.stacks):
        for place in places_of(stack.frames):
            here[place] += inside[index]
            beside[place] += every[index] - inside[index]
    least, most = AT_ONE_PLACE * int(own.sum()), NEVER_BEFORE * int((whole - own).sum())
    return {place for place, time in here.items() if time > 0 and time >= least and beside[place] <= most}
