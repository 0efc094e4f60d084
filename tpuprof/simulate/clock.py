"""Plays what the host does and what it launches, round after round: a compiled walk, or the same in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tpuprof.model.intervals import Int64
from tpuprof.records import record

_replay: Any
try:
    from tpuprof.simulate import _replay
except ImportError:  # not built, or for another Python or machine
    _replay = None

Float64 = npt.NDArray[np.float64]


@record(frozen=True)
class Pieces:
    """What the host does one after the other, one row each: for how long (`length`), or until work has ended.

    `ended` is the row of the work whose end ends the piece, -1 where none does; the host goes on `wake` ps after it.
    `cut` is the graph cut that a piece is in, if that locks the device, else -1. `start` is when it began in the
    trace. All in ps.
    """

    start: Int64
    cut: Int64
    length: Float64
    ended: Int64
    wake: Int64


@record(frozen=True)
class Queue:
    """Device work in the order of its launch, one row each: `latency` from launch to start, how long it `takes` (ps).

    `in_flight` is how much of it may be handed over and not finished before the host waits.
    """

    launch: Int64
    latency: Int64
    takes: Float64
    in_flight: int


def play(pieces: Pieces, queue: Queue, some_steps: bool, rounds: int) -> list[float]:
    """The host's time (ps) at the end of each of so many rounds.

    With `some_steps` the pieces are those of some steps alone: work that was launched in the others is left out.
    """
    if _replay is None:
        return _play(pieces, queue, some_steps, rounds)
    found: list[float] = _replay.play(
        *(np.ascontiguousarray(each) for each in vars(pieces).values()),
        *(np.ascontiguousarray(each) for each in (queue.launch, queue.latency, queue.takes)),
        some_steps,
        queue.in_flight,
        rounds,
    )
    return found


def _play(pieces: Pieces, queue: Queue, some_steps: bool, rounds: int) -> list[float]:
    clock = _Clock(queue)
    return [clock.round(pieces, some_steps) for _ in range(rounds)]


class _Clock:
    """What time it is on the host, when the device is free, when each piece of work ended."""

    def __init__(self, queue: Queue) -> None:
        self.host = 0.0
        self.free = 0.0
        self.ends: list[float] = []
        self.in_flight = queue.in_flight
        self.launches = queue.launch.tolist()
        self.work = list(zip(queue.latency.tolist(), queue.takes.tolist(), strict=True))
        self.cut = -1

    def round(self, pieces: Pieces, some_steps: bool) -> float:
        """Play all again; returns the host's time at the end (ps)."""
        base, launched = len(self.ends), 0
        window = int(pieces.start[0]) if len(pieces.start) else 0
        columns = (column.tolist() for column in vars(pieces).values())
        for start, cut, length, ended, wake in zip(*columns, strict=True):
            while launched < len(self.work) and self.launches[launched] <= start:
                # What was launched in a step that is left out is left out, what was before the window is not.
                if some_steps and window <= self.launches[launched] < start:
                    self.ends.append(self.free)
                else:
                    self._launch(*self.work[launched])
                launched += 1
            # At the start of a cut that locks the device, the host waits for the work launched before it.
            if cut not in (self.cut, -1):
                self.host = max(self.host, self.free)
            self.cut = cut
            if ended < 0 or base + ended >= len(self.ends):
                self.host += length
            else:
                self.host = max(self.host, self.ends[base + ended]) + wake
        for each in self.work[launched:]:
            self._launch(*each)
        return self.host

    def _launch(self, latency: int, takes: float) -> None:
        if len(self.ends) >= self.in_flight:
            self.host = max(self.host, self.ends[-self.in_flight])
        queued = self.ends and latency > 0 and self.free > self.host
        self.free = max(self.host + (0 if queued else latency), self.free) + takes
        self.ends.append(self.free)
