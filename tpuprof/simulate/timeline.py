"""A host's trace as the simulator replays it: stretches of host time, and pieces of device work with their launch.

All times are int64 ps from the run's origin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tpuprof import parts as part
from tpuprof.model.attribution import compiling, device_parts
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.host.activity import HostActivity
from tpuprof.model.host.vocabulary import Activity
from tpuprof.model.intervals import (
    EMPTY,
    Bool,
    Int64,
    Spans,
    among,
    ascending_distinct,
    contains,
    merge,
    subtract,
)
from tpuprof.model.steps import Steps
from tpuprof.records import record
from tpuprof.units import PS_PER_MS

DEVICE_WAIT = "device_wait"
# Host time in which the training thread runs a program of the device itself, as XLA's CPU client lets it.
RUNNING = "running"
# Host time that no event explains and that is not tracing either.
OTHER = "other"
# Kinds of host time in which the host waits for device work rather than works. Time of JAX's host that nothing
# explains is counted here: its waits leave no event, and it is replayed as a fixed time where no work ended in it.
WAITS = (DEVICE_WAIT, RUNNING, *(each.name for each in part.PARTS if each.replay is part.Replay.WAIT), OTHER)
# Kinds that end with a piece of work where one ended in them: handing over a program waits while the queue is full.
BLOCKING = (*WAITS, *(each.name for each in part.PARTS if each.replay is part.Replay.HAND_OVER))
GRAPH_CUT = "graph_cut"
JITTED_CALL = "jitted_call"
# The CPU client begins a program this long after it was handed over, at most (ps): in the sample traces 0.2 ms at most.
BEGINS_WITHIN_PS = 5 * PS_PER_MS

_KIND = {Activity[activity.upper()]: name for activity, name in part.of_activity().items()}
_KIND[Activity.DEVICE_WAIT] = DEVICE_WAIT


class Sort(NamedTuple):
    """A sort of host time: its kind, and the named events it is inside."""

    kind: str
    inside: frozenset[str]


@record(frozen=True)
class Stretches:
    """Stretches of the training thread's time, in order, one row each: times in ps, and the step's row.

    `sort` is the row of `sorts` that a stretch is of. `cut` numbers the graph cuts of the trace, -1 outside any.
    """

    start: Int64
    end: Int64
    sort: Int64
    step: Int64
    cut: Int64
    sorts: list[Sort]

    def of(self, wanted: Callable[[Sort], bool]) -> Bool:
        """Which stretches are of a sort that is wanted."""
        return np.array([wanted(each) for each in self.sorts], np.bool_)[self.sort]


@record(frozen=True)
class Work:
    """Pieces of device work in order, one row each: when each was launched and ran (ps).

    `parts` has how much of each piece each device part takes (ps).
    """

    launch: Int64
    start: Int64
    end: Int64
    parts: dict[str, Int64]

    def __len__(self) -> int:
        return len(self.start)


NO_WORK = Work(*EMPTY, EMPTY.end, {})


@record(frozen=True)
class Timeline:
    """What is replayed: the host's stretches end to end over all steps, and the device's work in order.

    Where only the device's programs mark the steps (`host_paced` is false), nothing tells which program the host
    waits for; the stretches are then those in which the device idles. `locks` tells that a graph cut waits for all
    work launched before it: torch_xla holds a lock on the device until a program is handed over, and the CPU client
    hands it over by running it.
    """

    stretches: Stretches
    work: Work
    steps: int
    wall_ps: int
    host_paced: bool
    locks: bool


def busiest(devices: list[DeviceActivity]) -> DeviceActivity | None:
    """The device that works longest, None where there is none."""
    return max(devices, key=lambda each: each.busy.total, default=None)


def read_timeline(
    steps: Steps, devices: list[DeviceActivity], host: HostActivity, named_events: dict[str, Spans]
) -> Timeline:
    """The timeline of one host and the busiest of its devices, over all its steps."""
    device = busiest(devices)
    work = _work(device, _handing_over(host), host.running, steps) if device else NO_WORK
    host_paced = host.driver is not None and steps.source.host_paced
    busy = EMPTY if host_paced or device is None else device.busy
    return Timeline(
        stretches=_without_phases(_stretches(steps, host, named_events, work.launch, busy), steps),
        work=_moved(work, steps),
        steps=len(steps),
        wall_ps=int(steps.wall_ps.sum()),
        host_paced=host_paced,
        locks=device is not None and device.type == "CPU",
    )


def _handing_over(host: HostActivity) -> Spans:
    """When programs are handed over: a call of a jitted function holds tracing and compile too, which come before.

    What another thread hands over meanwhile has nothing to do with what the training thread traces.
    """
    before = merge(host.compiling, host.spans(Activity.COMPILE), host.spans(Activity.TRACING))
    return merge(subtract(host.dispatching, before), subtract(host.dispatching_elsewhere, host.compiling))


def _stretches(
    steps: Steps, host: HostActivity, named_events: dict[str, Spans], launches: Int64, without: Spans
) -> Stretches:
    layers = _layers(host)
    begin, end = int(steps.start[0]), int(steps.end[-1])
    spans = [*(span for _, span in layers), *named_events.values(), without]
    points = np.concatenate([np.concatenate(span) for span in spans] + [launches, steps.start, steps.end])
    points = ascending_distinct(points[(points >= begin) & (points <= end)])
    start = points[:-1]
    kind = _first_layer(start, [span for _, span in layers])
    inside = {name: contains(span, start) for name, span in named_events.items()}
    cut = _span_row(named_events.get(GRAPH_CUT, EMPTY), start)
    step = np.searchsorted(steps.start, start, "right") - 1
    hidden = contains(without, start)
    first = np.flatnonzero(_changes(kind, step, cut, among(start, launches), hidden, *inside.values()))
    until = np.append(start[first[1:]], end)
    seen = ~hidden[first]
    first = first[seen]
    sort, sorts = _sorts(kind[first], {name: hit[first] for name, hit in inside.items()}, layers)
    return Stretches(start[first], until[seen], sort, step[first], cut[first], sorts)


def _without_phases(rows: Stretches, steps: Steps) -> Stretches:
    """The stretches in steps, as if nothing lay between two steps: phases that are not training are not replayed."""
    if steps.tile:
        return rows
    kept = steps.hold(rows.start)
    start, end = steps.joined(rows.start[kept]), steps.joined(rows.end[kept])
    return Stretches(start, end, rows.sort[kept], rows.step[kept], rows.cut[kept], rows.sorts)


def _moved(work: Work, steps: Steps) -> Work:
    if steps.tile:
        return work
    return Work(steps.joined(work.launch), steps.joined(work.start), steps.joined(work.end), work.parts)


def _sorts(kind: Int64, inside: dict[str, Bool], layers: list[tuple[str, Spans]]) -> tuple[Int64, list[Sort]]:
    """The sort of each stretch, and what the sorts are; `kind` is the row of its layer."""
    code = kind.copy()
    for hit in inside.values():
        code = code * 2 + hit
    _, first, sort = np.unique(code, return_index=True, return_inverse=True)
    names = [*(name for name, _ in layers), OTHER]
    return sort, [
        Sort(names[kind[row]], frozenset(name for name, hit in inside.items() if hit[row])) for row in first
    ]


def _layers(host: HostActivity) -> list[tuple[str, Spans]]:
    """Kinds of host time, the first that covers a moment names it.

    A program that the thread runs itself keeps it until it ends, whatever the program's callbacks do there.
    """
    layers = [(RUNNING, host.running)]
    layers += [(part.COMPILE, compiling(host))]
    layers += [(part.USER_PREFIX + name, spans) for name, spans in sorted(host.user.items())]
    layers += sorted(host.named.items())
    return [
        *layers,
        *((name, host.spans(activity)) for activity, name in _KIND.items() if name != part.COMPILE),
    ]


def _first_layer(times: Int64, spans: list[Spans]) -> Int64:
    found = np.full(len(times), len(spans), np.int64)
    for row in range(len(spans) - 1, -1, -1):
        found[contains(spans[row], times)] = row
    return found


def _span_row(spans: Spans, times: Int64) -> Int64:
    """Which span each time is in, -1 for none."""
    row = np.searchsorted(spans.start, times, "right") - 1
    return np.where(contains(spans, times), row, -1)


def _changes(*columns: Int64 | Bool) -> Bool:
    """Where a stretch begins: any column differs from the row before; a launch always begins one."""
    changed = np.ones(len(columns[0]), np.bool_)
    if len(changed) > 1:
        changed[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
        changed |= columns[3].astype(np.bool_)
    return changed


def _work(device: DeviceActivity, dispatching: Spans, running: Spans, steps: Steps) -> Work:
    begin, end = int(steps.start[0]), int(steps.end[-1])
    # Programs queue up without a gap between them: each is a piece of its own. The CPU device lists loop bodies as
    # programs: there it is each program that the training thread runs, as an op of one may end in the next.
    on_cpu = device.type == "CPU"
    start, stop = _cut(device.busy, np.concatenate(running) if on_cpu else device.programs.start)
    launch = _launches(dispatching, start)
    if on_cpu:
        launch = _begun_at_once(launch, start, stop)
    if not steps.tile:
        training = steps.hold(launch)
        launch, start, stop = launch[training], start[training], stop[training]
    chosen, start, stop = _in_window(launch, start, stop, begin, end)
    # What was launched before them was there when they began: each round would wait for it again, else.
    launch = np.maximum(launch[chosen], begin)
    return Work(launch, start, stop, device_parts(device, start, stop))


def _cut(busy: Spans, at: Int64) -> tuple[Int64, Int64]:
    """Starts and ends of the spans, cut at those of the times that are in them (ps)."""
    start = ascending_distinct(np.concatenate((busy.start, at[contains(busy, at)])))
    if len(start) == len(busy.start):
        return busy.start, busy.end
    return start, np.minimum(np.append(start[1:], np.iinfo(np.int64).max), busy.end[_rows(busy, start)])


def _begun_at_once(launch: Int64, start: Int64, stop: Int64) -> Int64:
    """Launches on the CPU client, which begins a program when it is handed over and the one before has ended.

    A piece that begins later than that was handed over by a call that the trace does not show: at its start, then.
    """
    free = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(stop)[:-1]) if len(stop) else stop
    return np.where(start - np.maximum(launch, free) > BEGINS_WITHIN_PS, start, launch)


def _in_window(launch: Int64, start: Int64, stop: Int64, begin: int, end: int) -> tuple[Bool, Int64, Int64]:
    """The work of the captured steps: what was launched in them, or what ran in them, whichever is more.

    In a steady run both are the same. What runs on after the last step may be missing from the trace, and
    before the first step there may have been none to run on.
    """
    ran = (stop > begin) & (start < end)
    launched = (launch >= begin) & (launch < end)
    inside_start, inside_stop = np.maximum(start[ran], begin), np.minimum(stop[ran], end)
    if (stop - start)[launched].sum() > (inside_stop - inside_start).sum():
        return launched, start[launched], stop[launched]
    return ran, inside_start, inside_stop


def _rows(spans: Spans, times: Int64) -> Int64:
    return np.searchsorted(spans.start, times, "right") - 1


def _launches(dispatching: Spans, start: Int64) -> Int64:
    """When the host began to hand each piece over: the dispatch before it, no later than the piece's start."""
    if not len(dispatching.start):
        return start
    row = np.searchsorted(dispatching.start, start, "right") - 1
    return np.where(row >= 0, dispatching.start[np.maximum(row, 0)], start)
