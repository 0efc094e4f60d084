"""Work of captured steps that went on after the last of them: an eager host runs ahead of its compiles and programs.

The host of an asynchronous framework ends a step when the last op is called. Where programs are then still compiled or
run for long, the steps as the host sees them are too short. That time belongs to the steps, so the last one lasts until
the work is done.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof.model.host.vocabulary import Vocabulary
from tpuprof.model.steps.table import Steps
from tpuprof.model.timeline import Host, Track
from tpuprof.units import PS_PER_MS, format_ms

# Share of the captured steps' time from which work after them counts: below it, a part of it is not worth naming.
BACKLOG_FROM_SHARE = 0.10
# Share of a step's ops from which the training thread goes on with another step after the last one that is captured:
# what runs then is not the captured steps' alone.
GOES_ON_FROM_SHARE = 0.25


def with_backlog(steps: Steps, host: Host, driver: Track | None, vocabulary: Vocabulary) -> Steps:
    """The steps, the last one prolonged by the work that the host left behind; unchanged where there is little."""
    if driver is None or len(steps) == 0 or not vocabulary.roles:
        return steps
    end = int(steps.end[-1])
    left = max((_last(track, vocabulary, end) for track in host.threads), default=end) - end
    if left < BACKLOG_FROM_SHARE * int(steps.wall_ps.sum()) or _goes_on(driver, steps, vocabulary):
        return steps
    until = steps.end.copy()
    until[-1] += left
    note = (
        f"the host ran ahead: the captured steps' programs were compiled or run for {format_ms(left / PS_PER_MS)} "
        "after the last step, which counts that time"
    )
    return replace(steps, end=until, note=f"{steps.note}; {note}" if steps.note else note)


def _last(track: Track, vocabulary: Vocabulary, end: int) -> int:
    """When a thread's last event of a role ends (ps); `end` where it has none."""
    names = track.plane.events.names
    rows = np.concatenate([found.rows(names) for _, found in vocabulary.roles])
    chosen = np.isin(track.name_row, rows)
    return max(int(track.end[chosen].max()), end) if chosen.any() else end


def _goes_on(driver: Track, steps: Steps, vocabulary: Vocabulary) -> bool:
    ops = np.isin(driver.name_row, vocabulary.driver_ops.rows(driver.plane.events.names))
    inside = int(steps.hold(driver.start[ops]).sum()) / len(steps)
    return int((driver.start[ops] >= steps.end[-1]).sum()) > GOES_ON_FROM_SHARE * inside
