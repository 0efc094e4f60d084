"""The table of steps, and what its rows can be read from."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Any

import numpy as np

from tpuprof.model.intervals import Bool, Int64, Spans, contains
from tpuprof.model.median import median
from tpuprof.model.steps.phase import LeftOut, Phase
from tpuprof.records import record

HIGH, MEDIUM, LOW = "high", "medium", "low"

# A step counts as typical up to this multiple of the median wall time (ratio): the spread of steady steps seen on
# shared machines stays below it, and a compile, a checkpoint or an evaluation goes far above.
TYPICAL_UP_TO = 1.25


class StepSource(StrEnum):
    """What step boundaries were read from, in the order of trust. The value is the text that reports show."""

    MARKERS = "step markers"
    PROFILER = "torch.profiler steps"
    DEVICE = "device Steps line"
    OPTIMIZER = "optimizer steps"
    CUTS = "inferred from graph cuts"
    READS = "inferred from reads that run graphs"
    EAGER_READS = "inferred from reads of values"
    COMPILED = "inferred from calls of torch.compile"
    CALLS = "inferred from calls of jitted functions"
    PROGRAMS = "inferred from the period of XLA Modules"
    OPS = "inferred from the period of XLA Ops"
    MAIN_PROGRAM = "executions of the main program"
    WHOLE_CAPTURE = "the whole capture"
    NONE = "none"

    @property
    def host_paced(self) -> bool:
        """Whether an event of the host begins each step; else only the device's own events do."""
        return self not in _OF_DEVICE


_OF_DEVICE = (
    StepSource.DEVICE,
    StepSource.PROGRAMS,
    StepSource.OPS,
    StepSource.MAIN_PROGRAM,
    StepSource.NONE,
)


@record(frozen=True)
class Steps:
    """Steps in time order. `number` is what the program called each, `start` and `end` in ps from origin.

    A step lasts until the next one starts, unless a phase that is not training is between them.
    `confidence` is high, medium or low; `note` says what the reader should know of it. `phases` are in time order.
    """

    source: StepSource
    confidence: str
    number: Int64
    start: Int64
    end: Int64
    note: str = ""
    phases: tuple[Phase, ...] = ()

    def __len__(self) -> int:
        return len(self.start)

    @property
    def method(self) -> str:
        """The source as reports name it."""
        return self.source.value

    @property
    def wall_ps(self) -> Int64:
        """Wall time of each step in ps."""
        return self.end - self.start

    @property
    def typical(self) -> Bool:
        """Which steps take what a step takes when nothing out of the ordinary happens; there must be a step."""
        typical: Bool = self.wall_ps <= TYPICAL_UP_TO * median(self.wall_ps)
        return typical

    def only(self, rows: slice | Int64 | Bool, **changed: Any) -> Steps:
        """The steps in these rows alone, with other fields where `changed` has them."""
        number, start, end = self.number[rows], self.start[rows], self.end[rows]
        return replace(self, number=number, start=start, end=end, **changed)

    def between(self, begin: int, end: int, before: LeftOut, after: LeftOut) -> Steps:
        """The steps in rows `begin` to `end`; those before them, and those after them, are a phase each."""
        start, until = int(self.start[begin]), int(self.end[end - 1])
        phases = [each for each in self.phases if start <= each.start < until]
        if begin:
            phases.insert(0, before.phase(int(self.start[0]), start, int(self.number[begin])))
        if end < len(self):
            phases.append(after.phase(until, int(self.end[-1]), int(self.number[end - 1]) + 1))
        return self.only(slice(begin, end), phases=tuple(phases))

    def noted(self, text: str) -> str:
        """The note with this behind it."""
        return f"{self.note}; {text}" if self.note else text

    def hold(self, times: Int64) -> Bool:
        """Whether each time is in a step."""
        return contains(self.spans, times)

    @property
    def tile(self) -> bool:
        """Whether each step begins where the one before ends: no phase is between two."""
        return bool((self.start[1:] == self.end[:-1]).all())

    def joined(self, times: Int64) -> Int64:
        """Times (ps) moved to the left by all that is between steps before them; a time between two is the seam's."""
        row = np.maximum(np.searchsorted(self.start, times, "right") - 1, 0)
        between = np.cumsum(np.append(0, self.start[1:] - self.end[:-1]))
        moved: Int64 = np.minimum(times, self.end[row]) - between[row]
        return moved

    @property
    def spans(self) -> Spans:
        """The steps as intervals, which may touch."""
        return Spans(self.start, self.end)


# Share of a usual step's length below which a step that nothing follows is not whole: it ends with its last program or
# call, and what the host does until the next one is missing. Steps that differ by less are kept.
WHOLE_FROM_SHARE = 0.75
# Steps that are followed from which they show what is usual (steps).
FOLLOWED_FROM = 2
# Share of the time from the first repetition to the last that steps must cover: of less, training is elsewhere.
COVERS_FROM_SHARE = 0.5


def whole_steps(start: Int64, end: Int64, followed: Bool) -> Bool:
    """Which repetitions are whole steps: those that another follows, and others where they are about as long."""
    if followed.sum() < FOLLOWED_FROM:
        return np.ones(len(start), np.bool_)
    usual = median((end - start)[followed])
    whole: Bool = followed | (end - start >= WHOLE_FROM_SHARE * usual)
    return whole


def begun_whole(start: Int64, end: Int64, followed: Bool) -> Bool:
    """Which steps of a device did not begin before the capture: all, or all but a first one that is clearly shorter.

    A device's own steps are no shorter at the beginning of a loop. Shorter than every other step that is followed, a
    first one was cut.
    """
    whole = np.ones(len(start), np.bool_)
    if followed.sum() > FOLLOWED_FROM and followed[0]:
        length = (end - start)[followed]
        whole[0] = length[0] >= WHOLE_FROM_SHARE * float(length[1:].min())
    return whole


def no_steps(note: str = "no step marker, graph cut or repeating program was found") -> Steps:
    """The result where nothing separates one step from the next."""
    none = np.empty(0, np.int64)
    return Steps(StepSource.NONE, LOW, none, none, none, note)


def tiled(
    source: StepSource, confidence: str, number: Int64, start: Int64, end: Int64, note: str = ""
) -> Steps:
    """Let each step last until the next starts, so that nothing between two boundaries is lost."""
    until = np.append(start[1:], end[-1])
    return Steps(source, confidence, number.astype(np.int64), start, np.maximum(until, start), note)
