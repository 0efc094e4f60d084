"""Replays a timeline: one training thread, one device queue, waits that end when the work they wait for does.

The host works through its stretches in order. Where it launched a piece of device work, that piece queues on
the device and begins when the device is free. A stretch of waiting ends when the piece does whose end lay in it
in the trace; one in which no piece ended takes as long as it did. The window of the trace is replayed several
times in a row, and the step time is that of the later rounds, so that its edges do not count.

Where only the device's programs mark the steps, its work and its idle time are replayed one after the other.
"""

from __future__ import annotations

import numpy as np

from tpuprof import parts as part
from tpuprof.model.intervals import Bool, Int64, among, ascending_distinct
from tpuprof.records import record
from tpuprof.simulate.change import Change
from tpuprof.simulate.clock import Float64, Pieces, Queue, play
from tpuprof.simulate.timeline import (
    BLOCKING,
    DEVICE_WAIT,
    GRAPH_CUT,
    JITTED_CALL,
    RUNNING,
    WAITS,
    Sort,
    Stretches,
    Timeline,
    Work,
)
from tpuprof.units import PS_PER_MS

# A simulation that misses the measured step time by more than this share is not used for prices.
FIT_WITHIN = 0.05
# Rounds of the trace's window that are replayed; the first fills the queue and is not counted.
ROUNDS = 4
# Programs handed over and not yet finished, beyond which the host waits. PyTorch/XLA's device lock lets the host
# trace one program ahead of the one that runs; a trace that shows more in flight is replayed with as many.
IN_FLIGHT = 2
# A wait ends this long after the piece of work it waited for, at most (ps): the runtime tells the host in between.
WAKE_PS = PS_PER_MS
# A wait or a hand-over from this length on (ps) in which no work ends waits for work that the trace does not tell
# apart, such as a program of several that overlap. Handing over alone takes 0.5 ms at most in the sample traces.
UNENDED_FROM_PS = PS_PER_MS
NOTHING = Change()


@record(frozen=True)
class Simulator:
    """A timeline with the replay's own step time (`base_ms`) and the measured one, in ms per step.

    With `keeps_gaps` the device idles between pieces that were launched at one moment for as long as it did.
    """

    timeline: Timeline
    base_ms: float
    measured_ms: float
    in_flight: int
    keeps_gaps: bool = False

    @property
    def error(self) -> float:
        """How far the replay misses the measured step time, as a share of it."""
        return abs(self.base_ms - self.measured_ms) / self.measured_ms

    def step_ms(self, change: Change) -> float:
        """The step time with the change made, on the scale of the measured one (ms)."""
        taken = _step_ms(self.timeline, change, self.in_flight, keeps_gaps=self.keeps_gaps)
        return taken * self.measured_ms / self.base_ms

    @property
    def unended_ms(self) -> float:
        """Waits per step (ms) in which no work ended: each is replayed as long as it was."""
        rows = self.timeline.stretches
        waits = rows.of(lambda sort: sort.kind in BLOCKING) & (rows.end - rows.start >= UNENDED_FROM_PS)
        waits &= _ended_in(rows, self.timeline.work.end) < 0
        return float((rows.end - rows.start)[waits].sum()) / self.timeline.steps / PS_PER_MS

    def removed_ms(self, change: Change) -> float:
        """Device work per step (ms) that a change leaves out."""
        work = self.timeline.work
        removed = float((_lengths(work, NOTHING) - _lengths(work, change)).sum())
        return removed / self.timeline.steps / PS_PER_MS


def fit(timeline: Timeline) -> Simulator:
    """Replay a timeline, which has at least one step, as it was; `Simulator.error` tells how near that comes."""
    in_flight = max(IN_FLIGHT, _most_in_flight(timeline.work))
    measured = timeline.wall_ps / timeline.steps / PS_PER_MS
    found = Simulator(timeline, _step_ms(timeline, NOTHING, in_flight), measured, in_flight)
    if found.error <= FIT_WITHIN or not timeline.host_paced:
        return found
    # Many small programs that were handed over before: what lies between two of them is the runtime's time, not the
    # host's. A replay that leaves it out is too fast.
    base_ms = _step_ms(timeline, NOTHING, in_flight, keeps_gaps=True)
    other = Simulator(timeline, base_ms, measured, in_flight, keeps_gaps=True)
    return min(found, other, key=lambda each: each.error)


def _most_in_flight(work: Work) -> int:
    """Most pieces of work that were handed over and not finished at once; their ends ascend."""
    finished = np.maximum.accumulate(np.searchsorted(work.end, work.launch, "right"))
    return int((np.arange(1, len(work) + 1) - finished).max(initial=0))


def _step_ms(timeline: Timeline, change: Change, in_flight: int, *, keeps_gaps: bool = False) -> float:
    wanted = change.steps if change.steps is not None else range(timeline.steps)
    if not timeline.host_paced:
        return _in_a_row_ms(timeline, change)
    work = timeline.work
    takes = _lengths(work, change) + (_gaps(work) if keeps_gaps and not change.as_one else 0)
    latency = np.zeros_like(work.start) if change.as_one else work.start - work.launch
    queue = Queue(work.launch, latency, takes, in_flight)
    locking = _locking_cuts(timeline.stretches) if timeline.locks else np.empty(0, np.int64)
    pieces = _pieces(timeline, change, locking)
    times = play(pieces, queue, change.steps is not None, ROUNDS)
    return (times[-1] - times[0]) / (ROUNDS - 1) / max(len(wanted), 1) / PS_PER_MS


def _in_a_row_ms(timeline: Timeline, change: Change) -> float:
    """The step time of a device whose work and idle time follow one another (ms)."""
    rows = timeline.stretches
    idle = float(((rows.end - rows.start) * host_factors(rows, change)).sum())
    working = float(sum(_lengths(timeline.work, change).tolist()))
    return (idle + working) / timeline.steps / PS_PER_MS


def _gaps(work: Work) -> Int64:
    """How long the device idled before each piece since the one before, where both were launched at one moment (ps)."""
    idle = np.zeros(len(work), np.int64)
    at_once = work.launch[1:] == work.launch[:-1]
    idle[1:] = np.where(at_once, np.maximum(work.start[1:] - work.end[:-1], 0), 0)
    return idle


def _lengths(work: Work, change: Change) -> Float64:
    """How long each piece of work takes with the change made (ps)."""
    takes = np.zeros(len(work), np.float64)
    for name, ps in work.parts.items():
        takes += ps * change.device.get(name, 1.0)
    return takes


def _pieces(timeline: Timeline, change: Change, locking: Int64) -> Pieces:
    """What the host does with this change made; what no launch, wait or lock parts is one piece."""
    rows = timeline.stretches
    if change.steps is not None:
        rows = _those(rows, np.isin(rows.step, list(change.steps)))
    if not len(rows.start):
        none = np.empty(0, np.int64)
        return Pieces(none, none, none.astype(np.float64), none, none)
    factor = host_factors(rows, change)
    ends = timeline.work.end
    ended = np.where(rows.of(lambda sort: sort.kind in BLOCKING) & (factor != 0), _ended_in(rows, ends), -1)
    if change.let_go:
        # What the thread had run itself before, a read of it waits for.
        reads = rows.of(lambda sort: sort.kind == part.HOST_SYNC) & (factor != 0) & (ended < 0)
        ended[reads] = np.searchsorted(timeline.work.launch, rows.start[reads], "right") - 1
    cut = np.where(np.isin(rows.cut, locking), rows.cut, -1)
    waits = ended >= 0
    begins = among(rows.start, timeline.work.launch) | waits
    begins[0] = True
    begins[1:] |= waits[:-1] | (cut[1:] != cut[:-1]) | (rows.start[1:] != rows.end[:-1])
    first = np.flatnonzero(begins)
    wake = (
        np.where(waits, np.clip(rows.end - ends[ended], 0, WAKE_PS), 0) if len(ends) else np.zeros_like(ended)
    )
    return Pieces(
        start=rows.start[first],
        cut=cut[first],
        length=np.add.reduceat((rows.end - rows.start) * factor, first),
        ended=ended[first],
        wake=wake[first],
    )


def _those(rows: Stretches, wanted: Bool) -> Stretches:
    start, end, sort = rows.start[wanted], rows.end[wanted], rows.sort[wanted]
    return Stretches(start, end, sort, rows.step[wanted], rows.cut[wanted], rows.sorts)


def _ended_in(rows: Stretches, ends: Int64) -> Int64:
    """By stretch the last piece of work that ended in it, -1 where none did."""
    if not len(ends):
        return np.full(len(rows.start), -1)
    row = np.searchsorted(ends, rows.end, "right") - 1
    return np.where((row >= 0) & (ends[row] > rows.start), row, -1)


def host_factors(rows: Stretches, change: Change) -> Float64:
    """How much of each stretch's time a replay with this change takes."""
    factor = np.array([_factor(each, change) for each in rows.sorts])[rows.sort]
    if change.unblock:
        factor[rows.of(lambda sort: sort.kind in WAITS) & (rows.cut < 0)] = 0.0
    if change.let_go:
        factor[rows.of(_runs_or_waits_in_call)] = 0.0
    if change.join_cuts is not None:
        joined = rows.of(lambda sort: GRAPH_CUT in sort.inside and sort.kind not in (*WAITS, part.COMPILE))
        joined &= ~np.isin(rows.cut, _longest_cuts(rows))
        factor[joined] = np.minimum(factor[joined], change.join_cuts)
    return factor


def _runs_or_waits_in_call(sort: Sort) -> bool:
    """Whether the thread runs a program itself, or waits in a call for the one before: ordered callbacks."""
    return sort.kind == RUNNING or (sort.kind == part.HOST_SYNC and JITTED_CALL in sort.inside)


def _factor(sort: Sort, change: Change) -> float:
    """What is left of a sort of host time, wherever it is."""
    past_waits = change.join_cuts is not None and not change.waits_stay
    if (change.unblock and sort.kind == part.HOST_SYNC) or (past_waits and sort.kind in WAITS):
        return 0.0
    return min(
        change.host.get(sort.kind, 1.0), *(change.named_events.get(name, 1.0) for name in sort.inside), 1.0
    )


def _locking_cuts(rows: Stretches) -> Int64:
    """Graph cuts that found the device free, so that the trace shows no wait where another replay may need one."""
    waiting = rows.of(lambda sort: sort.kind in (DEVICE_WAIT, RUNNING))
    cuts = rows.cut[rows.cut >= 0]
    return ascending_distinct(cuts[~among(cuts, rows.cut[waiting])])


def _longest_cuts(rows: Stretches) -> list[int]:
    """The graph cut of each step that keeps the training thread longest, waits left out."""
    counted = (rows.cut >= 0) & ~rows.of(lambda sort: sort.kind in WAITS)
    length: dict[tuple[int, int], int] = {}
    columns = (rows.step, rows.cut, rows.end - rows.start)
    for step, cut, ps in zip(*(column[counted].tolist() for column in columns), strict=True):
        length[step, cut] = length.get((step, cut), 0) + ps
    return list({step: cut for (step, cut), _ in sorted(length.items(), key=lambda item: item[1])}.values())
