"""Leading steps that took batches made ready before the capture, while all later ones wait for theirs.

A queue of batches fills up while the first graphs compile. Steps that empty it wait for nobody, and no later step of
the run is like them.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.intervals import Int64, Spans, covered
from tpuprof.model.median import median
from tpuprof.model.steadiness import MIN_STEPS
from tpuprof.model.steps import Steps
from tpuprof.model.steps.phase import READY_BATCHES, Phase
from tpuprof.units import counted

# Leading steps without a wait from which they are left out (steps): one may have found its batch by chance.
READY_FROM_STEPS = 2
# Share of the later half's median step that its median wait takes, from which these steps wait for batches (share):
# shorter waits change the mean of all by less than steps vary. A judgement.
WAITS_FROM_SHARE = 0.2
# Part of that wait below which a step found its batch ready, and from which it waited (ratio). Waits of one queue vary:
# half of the usual one is still a wait.
READY_BELOW, WAITED_FROM = 0.25, 0.5
# Share of the later steps that must wait (share). Of a loader that delivers in bursts, some never do: that goes on.
MOSTLY = 0.9
# How much longer a later step takes than a leading one (ratio). A judgement: a fifth, as of waits.
LONGER_FROM = 1.2


def without_ready_batches(steps: Steps, waiting: Spans, after_ps: float | None = None) -> Steps:
    """The steps without leading ones that waited for no batch, which are a phase then; `waiting` is when others do.

    `after_ps` is the mean step after the capture, None where it is unknown: the others must be more like it than all.
    """
    if len(steps) < MIN_STEPS + READY_FROM_STEPS or not steps.tile:
        return steps
    wall = steps.wall_ps
    first = _first_that_waits(covered(waiting, steps.start, steps.end), wall)
    if first < READY_FROM_STEPS or len(steps) - first < MIN_STEPS:
        return steps
    if median(wall[first:]) < LONGER_FROM * median(wall[:first]):
        return steps
    if after_ps is not None and abs(wall[first:].mean() - after_ps) > abs(wall.mean() - after_ps):
        return steps
    begin = int(steps.start[first])
    phases = [each for each in steps.phases if each.start >= begin]
    text = f"{counted(first, 'step')} did not wait, and later ones do, as where batches were ready before the capture"
    phases.insert(0, Phase(READY_BATCHES, int(steps.start[0]), begin, first, text, int(steps.number[first])))
    return steps.only(slice(first, None), phases=tuple(phases))


def _first_that_waits(waits: Int64, wall: Int64) -> int:
    """The row of the step from which on steps wait; 0 where they do not, or where the first ones do as well."""
    half = len(waits) // 2
    usual = median(waits[half:])
    if usual < WAITS_FROM_SHARE * median(wall[half:]):
        return 0
    first = int(np.argmax(waits >= READY_BELOW * usual))
    return first if (waits[first:] >= WAITED_FROM * usual).mean() >= MOSTLY else 0
