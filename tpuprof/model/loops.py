"""Time per iteration of each `while` of a program: a scan over layers, mostly.

The profiler marks no iterations. Ops of a loop's body run once an iteration, so among the ops that run inside
one execution of the `while`, the number of times that holds for most of the time is the trip count, and the
starts of the earliest of those ops cut the execution into iterations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuprof.model.device import DeviceActivity
from tpuprof.model.intervals import Bool, Int64, distinct
from tpuprof.model.op_kind import OpKind, opcode
from tpuprof.model.steps import Steps

# An iteration stands out from this factor over the median of its loop: a scan's iterations do the same work, and
# on a v6e their times differ by a few percent.
OUTLIER_FACTOR = 1.3
_BACKWARD = ("@backward", "backward")
# Scopes inside a loop's body that tell its direction: torch_xla's scan first, then JAX's.
_DIRECTIONS = (
    {"backward": "aot_backward", "forward": "aot_forward"},
    {"backward": "transpose(jvp", "forward": "jvp("},
)
# The scope of torch_xla's scan, forward and (under a module's backward scope) backward.
_SCAN = "xla__scan"


@dataclass(frozen=True)
class Loop:
    """One `while` on one device. Times in ps; `direction` is forward, backward or empty where not told.

    `iteration_ps` has the mean of each iteration over all executions, in order; None, for the reason in
    `detail`, where iterations cannot be told apart.
    """

    name: str
    module: str
    direction: str
    trip_count: int | None
    occurrences: int
    total_ps: int
    iteration_ps: list[float] | None
    source: str
    scope: str
    detail: str = ""

    @property
    def outliers(self) -> list[int]:
        """Iterations (from 0) that take `OUTLIER_FACTOR` times the median or more."""
        if not self.iteration_ps:
            return []
        limit = OUTLIER_FACTOR * float(np.median(self.iteration_ps))
        return [row for row, each in enumerate(self.iteration_ps) if each >= limit]


def find_loops(device: DeviceActivity, steps: Steps) -> list[Loop]:
    """Every `while` that ran inside a step, the one with most time first."""
    events = device.op_events
    order = np.argsort(events.start, kind="stable")
    loops = [
        row
        for row in range(len(device.ops))
        if device.ops.kind[row] == OpKind.CONTAINER
        and opcode(device.ops.long_name[row], device.ops.name[row]) == "while"
    ]
    spans = {row: _executions(device, row, steps) for row in loops}
    found = [_loop(device, row, spans, order) for row in loops if len(spans[row][0])]
    return sorted(found, key=lambda each: -each.total_ps)


def _executions(device: DeviceActivity, row: int, steps: Steps) -> tuple[Int64, Int64]:
    events = device.op_events
    chosen = np.flatnonzero(events.op == row)
    start, end = events.start[chosen], events.end[chosen]
    if len(steps):
        at = np.searchsorted(steps.start, start, "right") - 1
        keep = (at >= 0) & (start < steps.end[np.maximum(at, 0)])
        start, end = start[keep], end[keep]
    order = np.argsort(start, kind="stable")
    return start[order], end[order]


def _loop(device: DeviceActivity, row: int, spans: dict[int, tuple[Int64, Int64]], order: Int64) -> Loop:
    ops = device.ops
    start, end = spans[row]
    inside, execution = _inside(device, row, spans, order)
    if device.count > 1:
        trips, iterations = None, None
        detail = "unavailable: several devices run on this line, so their iterations mix"
    else:
        trips, iterations, detail = _iterations(device, inside, execution, start, end)
    names = np.flatnonzero(np.bincount(device.op_events.op[inside])).tolist()
    scopes = [ops.scope[each] for each in names if ops.scope[each]]
    return Loop(
        name=ops.name[row],
        module=ops.module[row],
        direction=_direction(ops.scope[row], scopes),
        trip_count=trips,
        occurrences=len(start),
        total_ps=int((end - start).sum()),
        iteration_ps=iterations,
        source=ops.source[row] or next((ops.source[each] for each in names if ops.source[each]), ""),
        scope=ops.scope[row],
        detail=detail,
    )


def _inside(
    device: DeviceActivity, row: int, spans: dict[int, tuple[Int64, Int64]], order: Int64
) -> tuple[Int64, Int64]:
    """Events inside the executions of one loop but outside loops nested in it, in time order; and which execution."""
    events = device.op_events
    start, end = spans[row]
    times = events.start[order]
    first = np.searchsorted(times, start)
    # What begins in two executions belongs to the later one.
    last = np.minimum(np.searchsorted(times, end), np.append(first[1:], len(times)))
    count = np.maximum(last - first, 0)
    execution = np.repeat(np.arange(len(start)), count)
    rows = order[np.arange(count.sum()) + np.repeat(first - np.cumsum(count) + count, count)]
    keep = events.op[rows] != row
    rows, execution = rows[keep], execution[keep]
    for other, (inner_start, inner_end) in spans.items():
        if other != row and len(inner_start):
            nested = _within(inner_start, inner_end, start, end)
            rows, execution = _without(events.start, rows, execution, inner_start[nested], inner_end[nested])
    return rows, execution


def _within(start: Int64, end: Int64, outer_start: Int64, outer_end: Int64) -> Bool:
    at = np.searchsorted(outer_start, start, "right") - 1
    nested: Bool = (at >= 0) & (end <= outer_end[np.maximum(at, 0)])
    return nested


def _without(times: Int64, rows: Int64, execution: Int64, start: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Drop events that begin inside given spans."""
    if not len(start):
        return rows, execution
    at = np.searchsorted(start, times[rows], "right") - 1
    keep = (at < 0) | (times[rows] >= end[np.maximum(at, 0)])
    return rows[keep], execution[keep]


def _iterations(
    device: DeviceActivity, rows: Int64, execution: Int64, start: Int64, end: Int64
) -> tuple[int | None, list[float] | None, str]:
    """(trip count, mean time of each iteration, why not) from the events inside all executions of a loop."""
    if not len(rows):
        return None, None, "unavailable: the trace shows no op inside the loop"
    op = device.op_events.op[rows]
    names, column = distinct(op)
    counts = np.bincount(execution * len(names) + column, minlength=len(start) * len(names))
    counts = counts.reshape(len(start), len(names))
    steady = (counts == counts[0]).all(axis=0)
    if not steady.any():
        return None, None, "unavailable: the number of iterations differs between executions"
    time = np.zeros(len(names), np.int64)
    np.add.at(time, column, device.op_events.self_ps[rows])
    weight: dict[int, int] = {}
    for each in np.flatnonzero(steady).tolist():
        weight[int(counts[0, each])] = weight.get(int(counts[0, each]), 0) + int(time[each])
    trips = max(weight, key=lambda count: (weight[count], count))
    first = np.empty(len(names), np.int64)
    first[column[::-1]] = np.arange(len(column) - 1, -1, -1)
    anchor = int(np.argmin(np.where(steady & (counts[0] == trips), first, len(column))))
    begins = device.op_events.start[rows[column == anchor]].reshape(len(start), trips)
    # What precedes the first body op belongs to the first iteration, what follows the last to the last.
    begins[:, 0] = start
    lengths = np.diff(np.concatenate((begins, end[:, None]), axis=1), axis=1)
    return trips, lengths.mean(axis=0).tolist(), ""


def _direction(own: str, inner: list[str]) -> str:
    """By what the ops of the body were traced from, else by the loop's own scope."""
    for marks in _DIRECTIONS:
        counts = {name: sum(mark in scope for scope in inner) for name, mark in marks.items()}
        best = max(counts, key=lambda name: counts[name])
        if counts[best]:
            return best
    if any(mark in own for mark in _BACKWARD):
        return "backward"
    return "forward" if _SCAN in own else ""
