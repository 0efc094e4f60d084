"""Work of steps before the capture that its steps wait for, of an eager host that runs ahead of a device not shown.

Such a host hands steps over in no time, and one step then waits for the device to do all of them. Where the capture
began between two such waits, its first one is for steps before the capture too. The process noted how long those took:
one far longer than the others is the wait before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tpuprof.model.host.unfinished_work import waits_for_work
from tpuprof.model.host.vocabulary import Vocabulary
from tpuprof.model.intervals import Spans, covered
from tpuprof.model.median import median
from tpuprof.model.steps.backlog import with_backlog
from tpuprof.model.steps.phase import RUN_UP, Phase
from tpuprof.model.steps.table import Steps
from tpuprof.model.timeline import Host, Track
from tpuprof.units import counted

# The time of a step over the median one from which it may be one that waits for the work of those before (ratio). Waits
# for 20 steps took 200 to 600 times the median step that is only handed over; steps that are not differ by less.
WAITED_FROM = 10.0
# Share of such a step in which the host waits from which it is one (share): most of it.
WAITS_FROM_SHARE = 0.5
# Share of the captured steps' time from which older work is left out of them (share): below it, steps vary by as much.
OLDER_FROM_SHARE = 0.05


def of_a_device_not_shown(
    steps: Steps, host: Host, driver: Track | None, vocabulary: Vocabulary, walls: Mapping[int, float]
) -> Steps:
    """The steps with the work that the host left behind, or without that of steps before the capture.

    `walls` has how long the process' steps took without their compiles, by number (ms).
    """
    since = steps_since_wait(int(steps.number[0]), walls) if len(steps) else None
    found = with_backlog(steps, host, driver, vocabulary, since)
    if found is not steps or driver is None or not vocabulary.eager or not since:
        return found
    return without_older_work(steps, waits_for_work(driver, vocabulary), since)


def steps_since_wait(first: int, walls: Mapping[int, float]) -> int | None:
    """How many steps lie between the last one before number `first` that waited and that; None where none waited."""
    if not walls:
        return None
    from_ = WAITED_FROM * median(np.array(list(walls.values())))
    waited = [number for number, took in walls.items() if 0 <= number < first and took >= from_]
    return first - max(waited) - 1 if waited else None


def without_older_work(steps: Steps, waits: Spans, since: int) -> Steps:
    """The steps, the first one that waits for many without the work of `since` steps that came before the capture."""
    long = np.flatnonzero(steps.wall_ps >= WAITED_FROM * median(steps.wall_ps))
    waiting = covered(waits, steps.start, steps.end) >= WAITS_FROM_SHARE * steps.wall_ps
    long = long[waiting[long]]
    if not len(long):
        return steps
    row = int(long[0])
    took, whole = int(steps.end[row] - steps.start[0]), int(steps.wall_ps.sum())
    older = took * since // (row + 1 + since)
    if older < OLDER_FROM_SHARE * whole or older > WAITS_FROM_SHARE * int(steps.wall_ps[row]):
        return steps
    until = steps.end.copy()
    until[row] -= older
    text = f"the device did the work of {counted(since, 'step')} before the capture"
    phase = Phase(RUN_UP, int(until[row]), int(steps.end[row]), since, text, int(steps.number[row]) + 1)
    phases = sorted((*steps.phases, phase), key=lambda each: each.start)
    return replace(steps, end=until, phases=tuple(phases))
