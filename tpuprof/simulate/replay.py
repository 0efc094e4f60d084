"""Replays a timeline: one training thread, one device queue, waits that end when the work they wait for does.

The host works through its stretches in order. Where it launched a piece of device work, that piece queues on
the device and begins when the device is free. A stretch of waiting ends when the piece does whose end lay in it
in the trace; one in which no piece ended takes as long as it did. The window of the trace is replayed several
times in a row, and the step time is that of the later rounds, so that its edges do not count.

Where only the device's programs mark the steps, its work and its idle time are replayed one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from tpuprof.model import attribution as part
from tpuprof.simulate.change import Change
from tpuprof.simulate.timeline import BLOCKING, DEVICE_WAIT, GRAPH_CUT, WAITS, Stretch, Timeline, Work
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
    """A timeline with the replay's own step time (`base_ms`) and the measured one, in ms a step."""

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
    idle = sum((each.end - each.start) * _factor(each, change, frozenset()) for each in timeline.stretches)
    return (idle + sum(_length(each, change) for each in timeline.work)) / timeline.steps / PS_PER_MS


def _length(work: Work, change: Change) -> float:
    return sum(ps * change.device.get(name, 1.0) for name, ps in work.parts.items())


class _Clock:
    """The state of a replay: what time it is on the host, when the device is free, when each piece ended."""

    def __init__(self, timeline: Timeline, change: Change, in_flight: int) -> None:
        self.change = change
        self.in_flight = in_flight
        self.host = 0.0
        self.free = 0.0
        self.ends: list[float] = []
        self.work = timeline.work
        self.locking = _locking_cuts(timeline) if timeline.locks else frozenset()
        self.cut = -1
        self.kept = [
            (each, _factor(each, change, longest))
            for longest in [_longest_cuts(timeline.stretches)]
            for each in timeline.stretches
            if change.steps is None or each.step in change.steps
        ]

    def play(self) -> float:
        """Replay the window once more; returns the host's time at its end (ps)."""
        base, launched = len(self.ends), 0
        for stretch, factor in self.kept:
            while launched < len(self.work) and self.work[launched].launch < stretch.start:
                launched = self._skip_or_launch(launched)
            while launched < len(self.work) and self.work[launched].launch == stretch.start:
                self._launch(self.work[launched])
                launched += 1
            self._enter(stretch.cut)
            self._spend(stretch, factor, base)
        for each in self.work[launched:]:
            self._launch(each)
        return self.host

    def _enter(self, cut: int) -> None:
        """At the start of a graph cut, wait for the work launched before it where the device is locked so long."""
        if cut != self.cut and cut in self.locking:
            self.host = max(self.host, self.free)
        self.cut = cut

    def _skip_or_launch(self, row: int) -> int:
        """Work launched in a step that is left out is left out too; what was launched before the window is not."""
        if self.change.steps is not None and self.work[row].launch >= self.kept[0][0].start:
            self.ends.append(self.free)
        else:
            self._launch(self.work[row])
        return row + 1

    def _launch(self, work: Work) -> None:
        if len(self.ends) >= self.in_flight:
            self.host = max(self.host, self.ends[-self.in_flight])
        queued = self.ends and work.start - work.launch > 0 and self.free > self.host
        latency = 0 if queued else work.start - work.launch
        begun = max(self.host + latency, self.free)
        self.free = begun + _length(work, self.change)
        self.ends.append(self.free)

    def _spend(self, stretch: Stretch, factor: float, base: int) -> None:
        length = stretch.end - stretch.start
        if stretch.kind not in BLOCKING:
            self.host += length * factor
            return
        if factor == 0.0:
            return
        ended = self._ended_in(stretch)
        if ended is None or base + ended >= len(self.ends):
            self.host += length * factor
            return
        after = min(stretch.end - self.work[ended].end, WAKE_PS)
        self.host = max(self.host, self.ends[base + ended]) + max(after, 0)

    def _ended_in(self, stretch: Stretch) -> int | None:
        """The last piece of work that ended while the host waited, None where none did."""
        low, high = 0, len(self.work)
        while low < high:
            middle = (low + high) // 2
            if self.work[middle].end <= stretch.end:
                low = middle + 1
            else:
                high = middle
        return low - 1 if low and self.work[low - 1].end > stretch.start else None


def _factor(stretch: Stretch, change: Change, longest: frozenset[int]) -> float:
    """How much of a stretch's time a replay with this change takes."""
    if change.unblock and (stretch.kind == part.HOST_SYNC or (stretch.kind in WAITS and stretch.cut < 0)):
        return 0.0
    factor = change.host.get(stretch.kind, 1.0)
    for mark in stretch.marks:
        factor = min(factor, change.marks.get(mark, 1.0))
    if change.join_cuts is not None:
        if stretch.kind in WAITS:
            return 0.0
        if GRAPH_CUT in stretch.marks and stretch.cut not in longest and stretch.kind != part.COMPILE:
            factor = min(factor, change.join_cuts)
    return factor


def _locking_cuts(timeline: Timeline) -> frozenset[int]:
    """Graph cuts that found the device free, so that the trace shows no wait where another replay may need one."""
    cuts = {each.cut for each in timeline.stretches if each.cut >= 0}
    return frozenset(cuts - {each.cut for each in timeline.stretches if each.kind == DEVICE_WAIT})


def _longest_cuts(stretches: list[Stretch]) -> frozenset[int]:
    """The graph cut of each step that keeps the training thread longest, waits left out."""
    length: dict[tuple[int, int], int] = {}
    for each in stretches:
        if each.cut >= 0 and each.kind not in WAITS:
            key = (each.step, each.cut)
            length[key] = length.get(key, 0) + each.end - each.start
    best: dict[int, int] = {}
    for (step, cut), _ in sorted(length.items(), key=lambda item: item[1]):
        best[step] = cut
    return frozenset(best.values())
