"""Replays a timeline: one training thread, one device queue, waits that end when the work they wait for does.

The host works through its stretches in order. Where it launched a piece of device work, that piece queues on
the device and begins when the device is free. A stretch of waiting ends when the piece does whose end lay in it
in the trace; one in which no piece ended takes as long as it did. The window of the trace is replayed several
times in a row, and the step time is that of the later rounds, so that its edges do not count.

Where only the device's programs mark the steps, its work and its idle time are replayed one after the other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tpuprof import parts as part
from tpuprof.model.intervals import Bool, Int64, among, ascending_distinct
from tpuprof.records import dataclass
from tpuprof.simulate.change import Change
from tpuprof.simulate.timeline import BLOCKING, DEVICE_WAIT, GRAPH_CUT, WAITS, Sort, Stretches, Timeline, Work
from tpuprof.units import PS_PER_MS

# A simulation that misses the measured step time by more than this share is not used for prices.
FIT_WITHIN = 0.05
# Rounds of the trace's window that are replayed; the first fills the queue and is not counted.
ROUNDS = 4
# Programs handed over and not yet finished, beyond which the host waits. PyTorch/XLA's device lock lets the host
# trace one program ahead of the one that runs; a trace that shows more in flight is replayed with as many.
IN_FLIGHT = 2
# A wait ends this long after the piece of work it waited for, at most (ps): the runtime tells the host in between.
WAKE_PS = 1_000_000_000
NOTHING = Change()


@dataclass(frozen=True)
class Simulator:
    """A timeline with the replay's own step time (`base_ms`) and the measured one, in ms per step."""

    timeline: Timeline
    base_ms: float
    measured_ms: float
    in_flight: int

    @property
    def error(self) -> float:
        """How far the replay misses the measured step time, as a share of it."""
        return abs(self.base_ms - self.measured_ms) / self.measured_ms

    def step_ms(self, change: Change) -> float:
        """The step time with the change made, on the scale of the measured one (ms)."""
        return _step_ms(self.timeline, change, self.in_flight) * self.measured_ms / self.base_ms


def fit(timeline: Timeline) -> Simulator:
    """Replay a timeline, which has at least one step, as it was; `Simulator.error` tells how near that comes."""
    in_flight = max(IN_FLIGHT, _most_in_flight(timeline.work))
    measured = timeline.wall_ps / timeline.steps / PS_PER_MS
    return Simulator(timeline, _step_ms(timeline, NOTHING, in_flight), measured, in_flight)


def _most_in_flight(work: list[Work]) -> int:
    ends = [each.end for each in work]
    most, first = 0, 0
    for position, each in enumerate(work):
        while ends[first] <= each.launch:
            first += 1
        most = max(most, position - first + 1)
    return most


def _step_ms(timeline: Timeline, change: Change, in_flight: int) -> float:
    wanted = change.steps if change.steps is not None else range(timeline.steps)
    if not timeline.host_paced:
        return _in_a_row_ms(timeline, change)
    clock = _Clock(timeline, change, in_flight)
    marks = [clock.play() for _ in range(ROUNDS)]
    return (marks[-1] - marks[0]) / (ROUNDS - 1) / max(len(wanted), 1) / PS_PER_MS


def _in_a_row_ms(timeline: Timeline, change: Change) -> float:
    """The step time of a device whose work and idle time follow one another (ms)."""
    rows = timeline.stretches
    idle = float(((rows.end - rows.start) * host_factors(rows, change)).sum())
    return (idle + sum(_length(each, change) for each in timeline.work)) / timeline.steps / PS_PER_MS


def _length(work: Work, change: Change) -> float:
    return sum(ps * change.device.get(name, 1.0) for name, ps in work.parts.items())


@dataclass
class _Piece:
    """What the host does next: for how long, or (`ended`) until which work has ended, and `wake` (ps) more.

    `cut` is the graph cut that it lies in, if that locks the device, else -1.
    """

    start: int
    cut: int
    length: float
    ended: int | None
    wake: int


class _Clock:
    """The state of a replay: what time it is on the host, when the device is free, when each piece ended."""

    def __init__(self, timeline: Timeline, change: Change, in_flight: int) -> None:
        self.change = change
        self.in_flight = in_flight
        self.host = 0.0
        self.free = 0.0
        self.ends: list[float] = []
        self.work = timeline.work
        self.lengths = [_length(each, change) for each in timeline.work]
        locking = _locking_cuts(timeline.stretches) if timeline.locks else np.empty(0, np.int64)
        self.cut = -1
        self.pieces = _pieces(timeline, change, locking)

    def play(self) -> float:
        """Replay the window once more; returns the host's time at its end (ps)."""
        base, launched = len(self.ends), 0
        for piece in self.pieces:
            while launched < len(self.work) and self.work[launched].launch < piece.start:
                launched = self._skip_or_launch(launched)
            while launched < len(self.work) and self.work[launched].launch == piece.start:
                self._launch(launched)
                launched += 1
            self._enter(piece.cut)
            self._spend(piece, base)
        for row in range(launched, len(self.work)):
            self._launch(row)
        return self.host

    def _enter(self, cut: int) -> None:
        """At the start of a graph cut, wait for the work launched before it where the device is locked so long."""
        if cut not in (self.cut, -1):
            self.host = max(self.host, self.free)
        self.cut = cut

    def _skip_or_launch(self, row: int) -> int:
        """Work launched in a step that is left out is left out too; what was launched before the window is not."""
        if self.change.steps is not None and self.work[row].launch >= self.pieces[0].start:
            self.ends.append(self.free)
        else:
            self._launch(row)
        return row + 1

    def _launch(self, row: int) -> None:
        work = self.work[row]
        if len(self.ends) >= self.in_flight:
            self.host = max(self.host, self.ends[-self.in_flight])
        queued = self.ends and work.start - work.launch > 0 and self.free > self.host
        latency = 0 if queued else work.start - work.launch
        begun = max(self.host + latency, self.free)
        self.free = begun + self.lengths[row]
        self.ends.append(self.free)

    def _spend(self, piece: _Piece, base: int) -> None:
        if piece.ended is None or base + piece.ended >= len(self.ends):
            self.host += piece.length
        else:
            self.host = max(self.host, self.ends[base + piece.ended]) + piece.wake


def _pieces(timeline: Timeline, change: Change, locking: Int64) -> list[_Piece]:
    """What the host does with this change made; what no launch, wait or lock parts is one piece."""
    rows = timeline.stretches
    if change.steps is not None:
        rows = _those(rows, np.isin(rows.step, list(change.steps)))
    if not len(rows.start):
        return []
    factor = host_factors(rows, change)
    ends = np.array([each.end for each in timeline.work], np.int64)
    ended = np.where(rows.of(lambda sort: sort.kind in BLOCKING) & (factor != 0), _ended_in(rows, ends), -1)
    cut = np.where(np.isin(rows.cut, locking), rows.cut, -1)
    waits = ended >= 0
    begins = among(rows.start, np.array([each.launch for each in timeline.work], np.int64)) | waits
    begins[0] = True
    begins[1:] |= waits[:-1] | (cut[1:] != cut[:-1]) | (rows.start[1:] != rows.end[:-1])
    first = np.flatnonzero(begins)
    wake = (
        np.where(waits, np.clip(rows.end - ends[ended], 0, WAKE_PS), 0) if len(ends) else np.zeros_like(ended)
    )
    columns = (
        rows.start[first],
        cut[first],
        np.add.reduceat((rows.end - rows.start) * factor, first),
        ended[first],
        wake[first],
    )
    return [
        _Piece(start, of_cut, length, row if row >= 0 else None, more)
        for start, of_cut, length, row, more in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _those(rows: Stretches, wanted: Bool) -> Stretches:
    start, end, sort = rows.start[wanted], rows.end[wanted], rows.sort[wanted]
    return Stretches(start, end, sort, rows.step[wanted], rows.cut[wanted], rows.sorts)


def _ended_in(rows: Stretches, ends: Int64) -> Int64:
    """By stretch the last piece of work that ended in it, -1 where none did."""
    if not len(ends):
        return np.full(len(rows.start), -1)
    row = np.searchsorted(ends, rows.end, "right") - 1
    return np.where((row >= 0) & (ends[row] > rows.start), row, -1)


def host_factors(rows: Stretches, change: Change) -> npt.NDArray[np.float64]:
    """How much of each stretch's time a replay with this change takes."""
    factor = np.array([_factor(each, change) for each in rows.sorts])[rows.sort]
    if change.unblock:
        factor[rows.of(lambda sort: sort.kind in WAITS) & (rows.cut < 0)] = 0.0
    if change.join_cuts is not None:
        joined = rows.of(lambda sort: GRAPH_CUT in sort.marks and sort.kind not in (*WAITS, part.COMPILE))
        joined &= ~np.isin(rows.cut, _longest_cuts(rows))
        factor[joined] = np.minimum(factor[joined], change.join_cuts)
    return factor


def _factor(sort: Sort, change: Change) -> float:
    """What is left of a sort of host time, wherever it lies."""
    if (change.unblock and sort.kind == part.HOST_SYNC) or (
        change.join_cuts is not None and sort.kind in WAITS
    ):
        return 0.0
    return min(change.host.get(sort.kind, 1.0), *(change.marks.get(mark, 1.0) for mark in sort.marks), 1.0)


def _locking_cuts(rows: Stretches) -> Int64:
    """Graph cuts that found the device free, so that the trace shows no wait where another replay may need one."""
    waiting = rows.of(lambda sort: sort.kind == DEVICE_WAIT)
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
