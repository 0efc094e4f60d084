"""How batches reach the device: who makes them, how long one takes, how long training waits for it."""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.host.activity import HostActivity
from tpuprof.model.host.vocabulary import Activity, NameSet, Vocabulary
from tpuprof.model.intervals import (
    EMPTY,
    Bool,
    Int64,
    Spans,
    covered,
    inherit,
    intersect,
    merge,
    subtract,
    union,
)
from tpuprof.model.median import median
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Host, Track
from tpuprof.own_events import FROM_PROCESSES, FROM_THREADS, GOES_ON, NEW_WORKERS, TAKEN_FROM
from tpuprof.records import record

# A loader keeps up while a batch takes at most this share of a step: what is left absorbs its own jitter (ratio).
KEEPS_UP = 0.9
# Waits below this share of a step are the queue's own cost, not starvation (ratio).
WAITS_FROM = 0.02
NONE_AHEAD, BACKGROUND, WORKERS = "none", "background", "workers"


@record(frozen=True)
class InputPipeline:
    """Input of one host inside its steps; times in ps, sums over all steps unless a name says otherwise.

    `prefetch` is `none` (the training thread makes its batches), `background` (another thread does) or `workers`
    (processes, which leave no events). `batches` are those that training takes, or those made where that leaves no
    event. `batch_ps` is the median time in which one is made, None where none was seen. `exposed_ps` is waiting with
    the device idle. `diagnosis` is ok, no_prefetch, slow_workers, restarted_workers, slow_loader, shallow_prefetch
    or unseen: training waits for batches of another thread, and the capture saw none made.
    """

    prefetch: str
    batches: int
    batch_ps: int | None
    wait_ps: int
    exposed_ps: int
    host_to_device_ps: int
    diagnosis: str


# Share of the waits for input, by time, that come as a loader's thread starts workers again from which that is their
# cause (share): most of them. A judgement.
RESTARTS_FROM_SHARE = 0.5


@record
class _Batches:
    """Batches of one thread that begin inside steps: how long each took, and which came from a queue.

    Those of a queue were made elsewhere: by a thread, or by a process. `parts` are events that go on after the end of a
    step: the batch is counted where it begins.
    """

    lengths: Int64
    from_threads: Bool
    from_processes: Bool
    parts: int

    @property
    def made(self) -> list[int]:
        """How long those took that this thread made itself."""
        made: list[int] = self.lengths[~self.from_threads & ~self.from_processes].tolist()
        return made


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
    taken, *others = (_batches(each, vocabulary, inside) for each in (driver, *makers))
    if not any(len(each.lengths) for each in (taken, *others)):
        return None
    made = [length for each in others for length in each.made]
    prefetch = _prefetch(taken, others)
    if prefetch == NONE_AHEAD:
        made = taken.made
    busy = merge(*(device.busy for device in devices)) if devices else EMPTY
    batch = int(median(np.asarray(made))) if made else None
    making = max((_making(track, vocabulary, steps, batch or 0) for track in makers), default=0)
    return InputPipeline(
        prefetch=prefetch,
        batches=len(taken.lengths) - taken.parts or len(made),
        batch_ps=batch,
        wait_ps=waits.total,
        exposed_ps=subtract(waits, busy).total,
        host_to_device_ps=_copies(host, vocabulary, inside),
        diagnosis=_restarted(makers, waits)
        or _diagnosis(prefetch, bool(made), making, waits.total, int(steps.wall_ps.sum())),
    )


def _restarted(makers: list[Track], waits: Spans) -> str:
    """The diagnosis where training mostly waits while threads of a loader have new worker processes; else empty."""
    rows = [(track, track.named(NEW_WORKERS)) for track in makers]
    starts = merge(*(union(track.start[found], track.end[found]) for track, found in rows))
    if not starts.total:
        return ""
    touched = covered(starts, waits.start, waits.end) > 0
    caused = int((waits.end - waits.start)[touched].sum())
    return "restarted_workers" if caused >= RESTARTS_FROM_SHARE * waits.total > 0 else ""


def _prefetch(taken: _Batches, others: list[_Batches]) -> str:
    """Who makes the batches, by the queues from which they come and the threads that make some."""
    if any(each.from_processes.any() for each in (taken, *others)):
        return WORKERS
    return BACKGROUND if taken.from_threads.any() or any(len(each.lengths) for each in others) else NONE_AHEAD


def _diagnosis(prefetch: str, seen: bool, making: int, waiting: int, wall: int) -> str:
    if waiting < WAITS_FROM * wall:
        return "ok"
    if prefetch == NONE_AHEAD:
        return "no_prefetch"
    if prefetch == WORKERS:
        return "slow_workers"
    if making > KEEPS_UP * wall:
        return "slow_loader"
    return "shallow_prefetch" if seen else "unseen"


def _batches(track: Track, vocabulary: Vocabulary, inside: Spans) -> _Batches:
    """What one thread made or took: its outermost loading events that begin inside steps."""
    codes = np.append(vocabulary.codes(track.plane.events.names), int(Activity.UNKNOWN))
    rows = track.outermost(np.flatnonzero(codes[track.name_row] == Activity.INPUT_WAIT))
    rows = rows[covered(inside, track.start[rows], track.start[rows] + 1) > 0]
    around = np.full(len(track), -1, np.int64)
    around[rows] = rows
    around = inherit(around, track.parent)
    from_threads, from_processes = (
        np.isin(rows, around[_from_queue(track, names, kind)])
        for names, kind in (
            (vocabulary.from_threads, FROM_THREADS),
            (vocabulary.from_processes, FROM_PROCESSES),
        )
    )
    goes_on = track.plane.stat_integers(track.stats(GOES_ON), GOES_ON, len(track))[rows]
    return _Batches((track.end - track.start)[rows], from_threads, from_processes, int((goes_on != 0).sum()))


def _from_queue(track: Track, names: NameSet, kind: str) -> Bool:
    """Which events of a thread show that a batch comes from a queue that is filled elsewhere."""
    matches = np.array([*map(names.matches, track.plane.events.names), False], np.bool_)
    said = track.plane.stat_text(track.stats(TAKEN_FROM), TAKEN_FROM, len(track))
    found: Bool = matches[track.name_row]
    return found | (said.codes == said.strings.index(kind)) if kind in said.strings else found


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
