"""Time per iteration of each `while` of a program: a scan over layers, mostly.

The profiler marks no iterations. Ops of a loop's body run once per iteration, so among the ops that run inside
one execution of the `while`, the number of times that holds for most of the time is the trip count, and the
starts of the earliest of those ops cut the execution into iterations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tpuprof.model.device.activity import DeviceActivity, OpEvents
from tpuprof.model.device.op_kind import OpKind, opcode
from tpuprof.model.intervals import Bool, Int64, Spans, contains, distinct, union
from tpuprof.model.median import median
from tpuprof.model.steps import Steps
from tpuprof.records import record

# An iteration stands out from this factor over the median of its loop: a scan's iterations do the same work, and
# on a v6e their times differ by a few percent.
OUTLIER_FACTOR = 1.3
# Share of the time inside a loop that ops must take which run as often in each of its executions, for their number to
# be that of the iterations (share): most of it, as the body's ops run in each iteration. A judgement.
STEADY_FROM_SHARE = 0.5
_BACKWARD = ("@backward", "backward")
# Scopes inside a loop's body that tell its direction, of torch_xla's scan.
_DIRECTIONS = {"backward": "aot_backward", "forward": "aot_forward"}
# What the scope of JAX's ops has in a backward pass, and in a forward pass whose derivative is taken.
_JAX_BACKWARD, _JAX_FORWARD = "transpose(jvp", "jvp("
# The scope of torch_xla's scan, forward and (under a module's backward scope) backward.
_SCAN = "xla__scan"


@record(frozen=True)
class Loop:
    """One `while` on one device; of several on one line, the time that any of them is in it, as that of ops is.

    Times are in ps; `direction` is forward, backward or empty where unknown.

    `iteration_ps` has the mean of each iteration over all executions, in order; None, for the reason in
    `detail`, where iterations cannot be distinguished. `within` is the innermost loop around it, empty where none is:
    that one's time holds its time. `interrupted`: the device is this machine's CPU, where the system stops threads.
    """

    name: str
    program: str
    direction: str
    trip_count: int | None
    occurrences: int
    total_ps: int
    iteration_ps: list[float] | None
    source: str
    scope: str
    detail: str = ""
    within: str = ""
    interrupted: bool = False

    @property
    def outliers(self) -> list[int]:
        """Iterations (from 0) that take `OUTLIER_FACTOR` times the median or more, where nothing interrupts them."""
        if not self.iteration_ps or self.interrupted:
            return []
        limit = OUTLIER_FACTOR * median(np.asarray(self.iteration_ps))
        return [row for row, each in enumerate(self.iteration_ps) if each >= limit]


def find_loops(device: DeviceActivity, steps: Steps) -> list[Loop]:
    """Every `while` that ran inside a step, the one with most time first."""
    names = device.ops
    loops = [
        row
        for row in np.flatnonzero(names.kind == OpKind.CONTAINER).tolist()
        if opcode(names.long_name[row], names.name[row]) == "while"
    ]
    if not loops:
        return []
    events = _in_order(device.op_events)
    spans = {row: _executions(events, row, steps) for row in loops}
    found = [_loop(device, events, row, spans) for row in loops if len(spans[row][0])]
    return sorted(found, key=lambda each: -each.total_ps)


def _in_order(events: OpEvents) -> OpEvents:
    """The same events in time order."""
    if (events.start[1:] >= events.start[:-1]).all():
        return events
    order = np.argsort(events.start, kind="stable")
    return OpEvents(events.op[order], events.start[order], events.end[order], events.self_ps[order])


def _executions(events: OpEvents, row: int, steps: Steps) -> tuple[Int64, Int64]:
    chosen = np.flatnonzero(events.op == row)
    start, end = events.start[chosen], events.end[chosen]
    if len(steps):
        keep = steps.hold(start)
        start, end = start[keep], end[keep]
    return start, end


def _loop(device: DeviceActivity, events: OpEvents, row: int, spans: dict[int, tuple[Int64, Int64]]) -> Loop:
    ops = device.ops
    start, end = spans[row]
    inside, execution = _inside(events, row, spans)
    op = events.op[inside]
    if device.count > 1:
        trips, iterations = None, None
        detail = "unavailable: several devices run on this line, so their iterations mix"
    else:
        trips, iterations, detail = _iterations(events, inside, op, execution, start, end)
    names = np.flatnonzero(np.bincount(op)).tolist()
    scopes = [ops.scope[each] for each in names if ops.scope[each]]
    return Loop(
        name=ops.name[row],
        program=ops.program[row],
        direction=_direction(ops.scope[row], scopes),
        trip_count=trips,
        occurrences=-(-len(start) // device.count),
        total_ps=int((end - start).sum()) if device.count == 1 else union(start, end).total,
        iteration_ps=iterations,
        source=ops.source[row] or next((ops.source[each] for each in names if ops.source[each]), ""),
        scope=ops.scope[row],
        detail=detail,
        within=_around(row, spans, ops.name),
        interrupted=device.type == "CPU",
    )


def _around(row: int, spans: dict[int, tuple[Int64, Int64]], names: Sequence[str]) -> str:
    """The innermost loop that holds all executions of a loop; empty where none does."""
    start, end = spans[row]
    around = [
        (int((until - since).sum()), names[other])
        for other, (since, until) in spans.items()
        if other != row and len(since) and bool(_within(start, end, since, until).all())
    ]
    return min(around, default=(0, ""))[1]


def _inside(events: OpEvents, row: int, spans: dict[int, tuple[Int64, Int64]]) -> tuple[Int64, Int64]:
    """Events inside the executions of one loop but outside loops nested in it, in time order; and which execution."""
    start, end = spans[row]
    first = np.searchsorted(events.start, start)
    # What begins in two executions belongs to the later one.
    last = np.minimum(np.searchsorted(events.start, end), np.append(first[1:], len(events.start)))
    last = np.maximum(last, first)
    lengths = np.diff(np.stack((first, last), axis=1).ravel(), prepend=0, append=len(events.start))
    wanted = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)
    wanted &= events.op != row
    for other, (inner_start, inner_end) in spans.items():
        if other != row and len(inner_start):
            nested = _within(inner_start, inner_end, start, end)
            wanted &= ~contains(Spans(inner_start[nested], inner_end[nested]), events.start)
    rows = np.flatnonzero(wanted)
    count = np.searchsorted(rows, last) - np.searchsorted(rows, first)
    return rows, np.repeat(np.arange(len(start)), count)


def _within(start: Int64, end: Int64, outer_start: Int64, outer_end: Int64) -> Bool:
    at = np.searchsorted(outer_start, start, "right") - 1
    nested: Bool = (at >= 0) & (end <= outer_end[np.maximum(at, 0)])
    return nested


def _iterations(
    events: OpEvents, rows: Int64, op: Int64, execution: Int64, start: Int64, end: Int64
) -> tuple[int | None, list[float] | None, str]:
    """(trip count, mean time of each iteration, why not) from the events inside all executions of a loop.

    `op` and `execution` say which op and execution each of those events, at `rows`, is of.
    """
    if not len(rows):
        return None, None, "unavailable: the trace shows no op inside the loop"
    names, column = distinct(op)
    counts = np.bincount(execution * len(names) + column, minlength=len(start) * len(names))
    counts = counts.reshape(len(start), len(names))
    steady = (counts == counts[0]).all(axis=0)
    time = np.zeros(len(names), np.int64)
    np.add.at(time, column, events.self_ps[rows])
    # Ops that run once in each execution, before the first iteration say, tell nothing of how many there are.
    if not steady.any() or time[steady].sum() < STEADY_FROM_SHARE * time.sum():
        return None, None, "unavailable: the number of iterations differs between executions"
    weight: dict[int, int] = {}
    for each in np.flatnonzero(steady).tolist():
        weight[int(counts[0, each])] = weight.get(int(counts[0, each]), 0) + int(time[each])
    trips = max(weight, key=lambda count: (weight[count], count))
    anchor = column[np.argmax((steady & (counts[0] == trips))[column])]
    begins = events.start[rows[column == anchor]].reshape(len(start), trips)
    # What precedes the first body op belongs to the first iteration, what follows the last to the last.
    begins[:, 0] = start
    lengths = np.diff(np.concatenate((begins, end[:, None]), axis=1), axis=1)
    return trips, lengths.mean(axis=0).tolist(), ""


def _direction(own: str, inner: list[str]) -> str:
    """By what the ops of a torch_xla scan's body were traced from, else by the loop's own scope, then by its ops'.

    A loop of JAX whose own scope names no derivative is of neither pass: one of random numbers or one over whole
    training steps, say. Other ops may run beside it, and those of its body may be of both passes.
    """
    counts = {name: sum(word in scope for scope in inner) for name, word in _DIRECTIONS.items()}
    best = max(counts, key=lambda name: counts[name])
    if counts[best]:
        return best
    if _JAX_BACKWARD in own or any(word in own for word in _BACKWARD):
        return "backward"
    if _JAX_FORWARD in own or _SCAN in own:
        return "forward"
    if own:
        return ""
    backward = any(_JAX_BACKWARD in scope for scope in inner)
    forward = any(_JAX_FORWARD in scope and _JAX_BACKWARD not in scope for scope in inner)
    return "" if backward == forward else "backward" if backward else "forward"
