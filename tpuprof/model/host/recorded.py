"""When the program was recorded: the profiler's own start and stop can take seconds, and are no time of the program.

A tracer of Python calls sees the end of the call that started it and the begin of the one that stops it. JAX's on a GPU
starts for ten seconds where ROCm's libraries are loaded.

Samples of the training thread show that it was recorded where it left no event: while it slept or waited for a process.
"""

from __future__ import annotations

import tomllib
from functools import cache

import numpy as np

from tpuprof.model.host.vocabulary import FOLDER, NameSet
from tpuprof.model.intervals import EMPTY, Int64, Spans, covered, subtract, union
from tpuprof.model.timeline import Host, Track
from tpuprof.own_events import SAMPLE
from tpuprof.records import record


@record(frozen=True)
class Recorded:
    """The time that a trace shows of the program (ps); None at an end where no event of the profiler bounds it.

    `sampled` is the time of the first and of the last sample of the training thread; None where there is none.
    `compiling` is when the training thread made programs, as far as that is known.
    """

    begin: int | None = None
    end: int | None = None
    sampled: tuple[int, int] | None = None
    compiling: Spans = EMPTY

    def holds(self, begins: Int64, ends: Int64, first: int, last: int) -> float:
        """The share of a time (ps) that spans of it hold, or of what nothing compiles in, whichever is more.

        A program that trains for a second may compile for longer: its steps are what there is beside that.
        """
        total, inside = last - first, int((ends - begins).sum())
        made = int(covered(self.compiling, np.array([first]), np.array([last]))[0])
        made_inside = int(covered(self.compiling, begins, ends).sum())
        quiet = (inside - made_inside) / max(total - made, 1)
        return max(inside / max(total, 1), quiet if inside > made_inside else 0.0)

    def extent(self, driver: Track) -> tuple[int, int]:
        """From the first to the last event or sample of a thread, without what the profiler does (ps)."""
        return self.around(int(driver.start.min()), int(driver.end.max()))

    def outside_events(self, driver: Track) -> Spans:
        """Time of a thread in no event, from its first to its last, or from sample to sample."""
        first, last = self.extent(driver)
        return subtract(union(np.array([first]), np.array([last])), union(driver.start, driver.end))

    def around(self, first: int, last: int) -> tuple[int, int]:
        """A time (ps) with the samples before and after it, without what the profiler does."""
        if self.sampled is not None:
            first, last = min(first, self.sampled[0]), max(last, self.sampled[1])
        begin = first if self.begin is None else max(first, self.begin)
        end = last if self.end is None else min(last, self.end)
        return begin, max(begin, end)


ALL = Recorded()
_SAMPLES = NameSet.of([SAMPLE])


def recorded_of(host: Host) -> Recorded:
    """The time between the profiler's start and its stop, as far as the host's threads show them."""
    starts, stops = _own_calls()
    ends = np.concatenate([_of(track, starts)[1] for track in host.threads] or [np.empty(0, np.int64)])
    # A second call, while the profiler runs, starts nothing.
    begin = int(ends.min()) if len(ends) else None
    stopped = np.concatenate([_of(track, stops)[0] for track in host.threads] or [np.empty(0, np.int64)])
    stopped = stopped if begin is None else stopped[stopped > begin]
    samples = np.concatenate([_of(track, _SAMPLES)[0] for track in host.threads] or [np.empty(0, np.int64)])
    sampled = (int(samples.min()), int(samples.max())) if len(samples) else None
    return Recorded(begin, int(stopped.min()) if len(stopped) else None, sampled)


def _of(track: Track, names: NameSet) -> tuple[Int64, Int64]:
    """Start and end of the events of those names."""
    rows = names.rows(track.plane.events.names)
    chosen = np.isin(track.name_row, rows)
    return track.start[chosen], track.end[chosen]


@cache
def _own_calls() -> tuple[NameSet, NameSet]:
    table = tomllib.loads((FOLDER / "profilers.toml").read_text("utf-8"))
    return NameSet.of(table["start"]), NameSet.of(table["stop"])
