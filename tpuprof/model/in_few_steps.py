"""Whether a cost is one of each step, or of a few steps: a mean says the same of both."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from tpuprof.model.median import median
from tpuprof.model.steps.table import TYPICAL_UP_TO
from tpuprof.model.verdict_words import NAMED_FROM_SHARE
from tpuprof.units import counted, format_ms, format_share

# Share of a cost that must lie in a few steps for it to be theirs: what the other steps have is then next to nothing.
# Not fitted: a cost that each step has needs nine steps of ten for it.
HELD_SHARE = 0.9
# Share of the steps that are few at most: with more, the cost is the rhythm of the run.
FEW_SHARE = 0.5
# Share of a cost that one of several steps must hold to be named alone (share): twice what all others hold together.
IN_ONE_SHARE = 2 / 3
# Captured steps from which a few of them can be counted (steps).
COUNTED_FROM = 4


def few_of(times: Sequence[float]) -> int:
    """How many steps hold nearly all of a cost, where they are few; else 0. `times` is the cost of each step."""
    whole = sum(times)
    if len(times) < COUNTED_FROM or whole <= 0:
        return 0
    sums = accumulate(sorted(times, reverse=True))
    count = next((row for row, ms in enumerate(sums, 1) if ms >= HELD_SHARE * whole), len(times))
    return count if count <= FEW_SHARE * len(times) else 0


def said_of_few(times: Sequence[float]) -> str:
    """`nearly all of it in 2 of 8 steps`, or how much one of these has; empty where each step has the cost."""
    few = few_of(times)
    if not few:
        return ""
    most, steps = max(times) / sum(times), counted(len(times), "step")
    if few > 1 and most >= IN_ONE_SHARE:
        return f"{format_share(most)} of it in one of {steps}"
    return f"nearly all of it in {few} of {steps}"


def said_of_mean(wall: Sequence[float], idle: Sequence[float]) -> str:
    """How few steps are how much longer than the median step, where the device idles for it; else empty.

    `wall` is the time of each step and `idle` that in which its device idles (ms).
    """
    if len(wall) < COUNTED_FROM:
        return ""
    middle, usual_idle = median(np.array(wall)), median(np.array(idle))
    longer = [ms > TYPICAL_UP_TO * middle for ms in wall]
    more = [max(ms - usual_idle, 0.0) if long else 0.0 for ms, long in zip(idle, longer, strict=True)]
    few = few_of(more)
    if not few or sum(more) < NAMED_FROM_SHARE * sum(wall):
        return ""
    # Imported here: most runs have no such steps.
    from tpuprof.report.step_times import AHEAD_BELOW

    first = sorted(zip(more, wall, strict=True), reverse=True)[:few]
    mean, most = sum(ms for _, ms in first) / few, max(ms for _, ms in first)
    longest = f"{'takes' if few == 1 else 'take'} {format_ms(mean)}"
    if format_ms(most) != format_ms(mean):
        longest += f" on average, {format_ms(most)} at most"
    usual = f"the median step takes {format_ms(middle)}"
    if middle < AHEAD_BELOW * (sum(wall) - sum(idle)) / len(wall):
        # What the host needs to hand a step over is no step: a few steps wait for the work of many.
        others = (sum(wall) - sum(ms for _, ms in first)) / (len(wall) - few)
        usual = f"the others take {format_ms(others)} on average"
    return f" {few} of {counted(len(wall), 'step')} {longest}, and {usual}."
