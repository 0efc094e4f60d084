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
from tpuprof.model.steps.waits_before import WAITED_FROM, steps_since_wait
from tpuprof.model.timeline import Host, Track
from tpuprof.units import PS_PER_MS, counted

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
    found = with_backlog(steps, host, driver, vocabulary, walls)
    if found is not steps or driver is None or not vocabulary.eager or not len(steps):
        return found
    return without_older_work(steps, waits_for_work(driver, vocabulary), walls)


def without_older_work(steps: Steps, waits: Spans, walls: Mapping[int, float]) -> Steps:
    """The steps, the first one that waits for many without the work of steps that came before the capture."""
    long = np.flatnonzero(steps.wall_ps >= WAITED_FROM * median(steps.wall_ps))
    waiting = covered(waits, steps.start, steps.end) >= WAITS_FROM_SHARE * steps.wall_ps
    long = long[waiting[long]]
    if not len(long):
        return steps
    row = int(long[0])
    since = steps_since_wait(int(steps.number[0]), walls, float(steps.wall_ps[row]) / PS_PER_MS)
    if not since:
        return steps
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
