"""Work of captured steps that went on after the last of them: an eager host runs ahead of its compiles and programs.

The host of an asynchronous framework ends a step when the last op is called. Where programs are then still compiled or
run for long, the steps as the host sees them are too short. That time belongs to the steps, so the last one lasts until
the work is done. Programs run in the order in which they were handed over: where the queue was never empty in the
steps, it may have held work of the steps before the capture too, and then only the captured steps' share counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tpuprof.model.device.cpu import NEVER_RESTS_FROM_SHARE
from tpuprof.model.host.vocabulary import Activity, Vocabulary
from tpuprof.model.intervals import Int64, Spans, contains, covered, merge, union
from tpuprof.model.steps.table import Steps
from tpuprof.model.steps.waits_before import steps_since_wait
from tpuprof.model.timeline import Host, Track
from tpuprof.units import PS_PER_MS, counted, format_ms

# Share of the captured steps' time from which work after them counts: below it, a part of it is not worth naming.
BACKLOG_FROM_SHARE = 0.10
# Share of a step's ops from which the training thread goes on with another step after the last one that is captured:
# what runs then is not the captured steps' alone.
GOES_ON_FROM_SHARE = 0.25


def with_backlog(
    steps: Steps,
    host: Host,
    driver: Track | None,
    vocabulary: Vocabulary,
    walls: Mapping[int, float] | None = None,
) -> Steps:
    """The steps, the last one prolonged by the work that the host left behind; unchanged where there is little.

    `walls` has how long the process' steps took without their compiles, by number (ms), where noted.
    """
    if driver is None or len(steps) == 0 or not vocabulary.roles:
        return steps
    begin, end = int(steps.start[0]), int(steps.end[-1])
    last = max((_last(track, vocabulary, end) for track in host.threads), default=end)
    since = steps_since_wait(int(steps.number[0]), walls or {}, (last - end) / PS_PER_MS)
    before = _steps_before(steps, host, driver, vocabulary, since)
    # Of the work of all steps that may be in the queue, what is the captured ones'.
    left = begin + (last - begin) * len(steps) // (len(steps) + before) - end
    if left < BACKLOG_FROM_SHARE * int(steps.wall_ps.sum()) or _goes_on(driver, steps, vocabulary):
        return steps
    until = steps.end.copy()
    until[-1] += left
    note = _note(steps, last - begin, left, before)
    return replace(steps, end=until, note=steps.noted(note))


def _note(steps: Steps, took: int, left: int, before: int) -> str:
    note = (
        f"the host ran ahead: the captured steps' programs were compiled or run for {format_ms(left / PS_PER_MS)} "
        "after the last step, which counts that time"
    )
    if not before:
        return note
    least, most = (format_ms(took / PS_PER_MS / count) for count in (len(steps) + before, len(steps)))
    return (
        f"{note}. The device was behind when the capture began, so some of what ran may be of the "
        f"{counted(before, 'step')} before it: steps took {least} to {most}"
    )


def _last(track: Track, vocabulary: Vocabulary, end: int) -> int:
    """When a thread's last event of a role ends (ps); `end` where it has none."""
    names = track.plane.events.names
    rows = np.concatenate([found.rows(names) for _, found in vocabulary.roles])
    chosen = np.isin(track.name_row, rows)
    return max(int(track.end[chosen].max()), end) if chosen.any() else end


def _steps_before(steps: Steps, host: Host, driver: Track, vocabulary: Vocabulary, since: int | None) -> int:
    """How many steps before the capture may have left work in the queue: none if the queue was empty in the steps.

    A run that was under way when the profiler started has no event, so the time before the first run does not count.
    """
    runs = merge(*(_runs(track, vocabulary) for track in host.threads if track is not driver))
    first = runs.start[(runs.start >= steps.start[0]) & (runs.start < steps.end[-1])]
    if not len(first):
        return 0
    begin, end = first[:1], steps.end[-1:]
    busy = int(covered(runs, begin, end)[0])
    never_rests = busy >= NEVER_RESTS_FROM_SHARE * int(end[0] - begin[0])
    if not never_rests:
        return 0
    return since if since is not None else max(int(steps.number[0]), 0)


def _runs(track: Track, vocabulary: Vocabulary) -> Spans:
    chosen = _named(track, vocabulary.handed_over.rows(track.plane.events.names))
    return union(track.start[chosen], track.end[chosen])


def _named(track: Track, rows: Int64) -> Int64:
    return np.flatnonzero(np.isin(track.name_row, rows))


def _goes_on(driver: Track, steps: Steps, vocabulary: Vocabulary) -> bool:
    """Whether another step follows: ops come after the last one, and not those of a read, which waits for the work."""
    names = driver.plane.events.names
    codes = vocabulary.codes(names)
    reads = _named(driver, np.flatnonzero(codes == Activity.DEVICE_TO_HOST_SYNC))
    ops = driver.start[_named(driver, vocabulary.driver_ops.rows(names))]
    ops = ops[~contains(union(driver.start[reads], driver.end[reads]), ops)]
    inside = int(steps.hold(ops).sum()) / len(steps)
    return int((ops >= steps.end[-1]).sum()) > GOES_ON_FROM_SHARE * inside
