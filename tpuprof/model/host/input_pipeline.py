"""How batches reach the device: who makes them, how long one takes, how long training waits for it."""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.host.activity import HostActivity
from tpuprof.model.host.vocabulary import Activity, Vocabulary
from tpuprof.model.intervals import EMPTY, Int64, Spans, covered, intersect, merge, nesting, subtract, union
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Host, Track
from tpuprof.records import record

# A loader keeps up while a batch takes at most this share of a step: what is left absorbs its own jitter (ratio).
KEEPS_UP = 0.9
# Waits below this share of a step are the queue's own cost, not starvation (ratio).
WAITS_FROM = 0.02
NONE_AHEAD = "none"
BACKGROUND = "background"


@record(frozen=True)
class InputPipeline:
    """Input of one host inside its steps; times in ps, sums over all steps unless a name says otherwise.

    `prefetch` is `none` (the training thread makes its batches) or `background`; `batch_ps` the median time one
    batch takes whoever makes it, None where no event tells; `exposed_ps` is waiting with the device idle.
    `diagnosis` is ok, no_prefetch, slow_loader or shallow_prefetch.
    """

    prefetch: str
    batches: int
    batch_ps: int | None
    wait_ps: int
    exposed_ps: int
    host_to_device_ps: int
    diagnosis: str


def read_input(
    host: Host,
    driver: Track | None,
    vocabulary: Vocabulary,
    activity: HostActivity,
    steps: Steps,
    devices: list[DeviceActivity],
) -> InputPipeline | None:
    """The input pipeline of one host, None where the trace shows no batch being loaded in a step."""
    if driver is None or not len(steps):
        return None
    inside = union(steps.start, steps.end)
    waits = intersect(activity.spans(Activity.INPUT_WAIT), inside)
    makers = [track for track in host.threads if track is not driver]
    made = [length for track in makers for length in _lengths(track, vocabulary, inside)]
    prefetch = BACKGROUND if made else NONE_AHEAD
    if not made:
        made = _lengths(driver, vocabulary, inside)
    if not made:
        return None
    busy = merge(*(device.busy for device in devices)) if devices else EMPTY
    batch = int(np.median(made))
    making = max((_making(track, vocabulary, steps, batch) for track in makers), default=0)
    return InputPipeline(
        prefetch=prefetch,
        batches=len(made),
        batch_ps=batch,
        wait_ps=waits.total,
        exposed_ps=subtract(waits, busy).total,
        host_to_device_ps=_copies(host, vocabulary, inside),
        diagnosis=_diagnosis(prefetch, making, waits.total, int(steps.wall_ps.sum())),
    )


def _diagnosis(prefetch: str, making: int, waiting: int, wall: int) -> str:
    if waiting < WAITS_FROM * wall:
        return "ok"
    if prefetch == NONE_AHEAD:
        return "no_prefetch"
    return "slow_loader" if making > KEEPS_UP * wall else "shallow_prefetch"


def _lengths(track: Track, vocabulary: Vocabulary, inside: Spans) -> list[int]:
    """How long each batch took on one thread: its outermost loading events that begin inside steps."""
    start, end = _events(track, vocabulary, Activity.INPUT_WAIT)
    outermost = nesting(start, end) < 0
    start, end = start[outermost], end[outermost]
    chosen = covered(inside, start, start + 1) > 0
    lengths: list[int] = (end - start)[chosen].tolist()
    return lengths


def _making(track: Track, vocabulary: Vocabulary, steps: Steps, batch: int) -> int:
    """How long a thread was making batches while training went on (ps).

    A batch that was begun before the profiler, or not yet done at its end, leaves no event. So up to one batch's time
    counts before the first event and after the last: a loader that is too slow is never idle.
    """
    events = union(*_events(track, vocabulary, Activity.INPUT_WAIT))
    begin, end = int(steps.start[0]), int(steps.end[-1])
    if not len(events.start) or events.end[-1] <= begin or events.start[0] >= end:
        return 0
    before = min(max(int(events.start[0]) - begin, 0), batch)
    after = min(max(end - int(events.end[-1]), 0), batch)
    return intersect(events, union(steps.start, steps.end)).total + before + after


def _copies(host: Host, vocabulary: Vocabulary, inside: Spans) -> int:
    parts = [union(*_events(track, vocabulary, Activity.HOST_TO_DEVICE)) for track in host.threads]
    return sum(intersect(part, inside).total for part in parts)


def _events(track: Track, vocabulary: Vocabulary, wanted: Activity) -> tuple[Int64, Int64]:
    codes = np.append(vocabulary.codes(track.plane.events.names), int(Activity.UNKNOWN))
    chosen = codes[track.name_row] == wanted
    return track.start[chosen], track.end[chosen]
