"""Steps that the host marked: tpuprof.step, StepTrace and StepTraceAnnotation (`_r`), torch.profiler's ProfilerStep."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from tpuprof.model.host.annotations import kinds_of_spans
from tpuprof.model.intervals import Int64
from tpuprof.model.median import median
from tpuprof.model.steps.holes import lacking, without_holes
from tpuprof.model.steps.table import HIGH, MEDIUM, Steps, StepSource, tiled
from tpuprof.model.timeline import Track
from tpuprof.records import record

# What tpuprof's own capture made a marker from; a program's own markers say nothing or "user".
ORIGIN_STAT = "origin"
FROM_OPTIMIZER, FROM_CUT, FROM_COMPILED = "optimizer", "cut", "compiled"
# TorchTPU's events are cut at the `#`: its steps have no number.
_PROFILER_STEP = re.compile(r"ProfilerStep(?:#(\d+)|$)")
_NO_STEP, _UNNUMBERED = -1, -2
# Share of the time from one marker to the next that markers must cover for the last one to stand for its step (share);
# below it the step would lose more than the marker holds. A judgement: half. And the markers that it takes to tell.
COVERS_FROM_SHARE = 0.5
CLOSED_FROM_STEPS = 3
_ONE_ROUND = (
    "one round of calls of functions by torch.compile counts as one step; mark steps with tpuprof.step if not"
)
# What the note says of a last marker that is left out.
_LAST_LEFT_OUT = (
    "the last marker is left out: it ends before its step does, and nothing tells where that ends"
)


@record(frozen=True)
class Markers:
    """Step markers of the training thread in time order: ps and number; `origin` says what they were made from."""

    origin: str
    number: Int64
    start: Int64
    end: Int64

    @property
    def own(self) -> bool:
        """Whether the capture set them itself, for want of any that the program sets."""
        return self.origin in (FROM_OPTIMIZER, FROM_CUT, FROM_COMPILED)


def read_markers(driver: Track) -> Markers | None:
    """The outermost `_r` events; of several kinds, tpuprof's."""
    stats = driver.stats("_r", "step_num", ORIGIN_STAT)
    plane = driver.plane
    key = plane.stat_ids.get("_r")
    if key is None or not len(stats):
        return None
    roots = np.flatnonzero(np.bincount(stats.select(key).row))
    values, codes = kinds_of_spans(driver)
    if "step" in values:
        own = roots[codes[roots] == values.index("step")]
        roots = own if len(own) else roots
    roots = _outermost(driver, roots)
    if not len(roots):
        return None
    number = plane.stat_integers(stats, "step_num", len(driver), missing=-1)[roots]
    if (number < 0).any():
        number = np.arange(len(roots))
    origin = plane.stat_text(stats, ORIGIN_STAT, len(driver))
    return Markers(origin[int(roots[-1])], number, driver.start[roots], driver.end[roots])


def marked_steps(markers: Markers) -> Steps:
    """The markers as they stand, but for a last one of which most of the step is behind it."""
    found = tiled(StepSource.MARKERS, HIGH, markers.number, markers.start, markers.end)
    found = without_holes(found, markers.end, lacking(markers.number, markers.start))
    if not _ends_early(markers):
        return found
    return found.only(slice(-1), note=found.noted(_LAST_LEFT_OUT))


def _ends_early(markers: Markers) -> bool:
    """Whether markers are far shorter than steps (they may hold a call that returns at once), the last one as well.

    No step begins behind the last one, so nothing tells where it ends.
    """
    if len(markers.start) < CLOSED_FROM_STEPS:
        return False
    least = COVERS_FROM_SHARE * median(np.diff(markers.start))
    own = markers.end - markers.start
    return bool(max(median(own[:-1]), own[-1]) < least)


def compiled_steps(markers: Markers) -> Steps:
    """Markers that the capture made from calls of compiled functions, for want of anything surer."""
    found = tiled(StepSource.COMPILED, MEDIUM, markers.number, markers.start, markers.end)
    return replace(found, note=_ONE_ROUND)


def profiler_steps(driver: Track) -> Steps | None:
    """Steps of torch.profiler."""
    names = driver.plane.events.names
    numbers = np.array([_profiler_step_number(name) for name in names] + [_NO_STEP], np.int64)[
        driver.name_row
    ]
    rows = _outermost(driver, np.flatnonzero(numbers != _NO_STEP))
    if not len(rows):
        return None
    number = numbers[rows] if (numbers[rows] != _UNNUMBERED).all() else np.arange(len(rows))
    found = tiled(StepSource.PROFILER, HIGH, number, driver.start[rows], driver.end[rows])
    return without_holes(found, driver.end[rows], lacking(number, driver.start[rows]))


def _outermost(driver: Track, rows: Int64) -> Int64:
    """Of several markers inside one another, the outer ones; in time order."""
    rows = rows[np.argsort(driver.start[rows], kind="stable")]
    inside = np.zeros(len(rows), np.bool_)
    if len(rows) > 1:
        reach = np.maximum.accumulate(driver.end[rows])[:-1]
        inside[1:] = driver.end[rows][1:] <= reach
    return rows[~inside]


def _profiler_step_number(name: str) -> int:
    found = _PROFILER_STEP.match(name)
    if not found:
        return _NO_STEP
    return int(found.group(1)) if found.group(1) else _UNNUMBERED
