"""What each moment inside a host's steps counts for in the breakdown, as stretches of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuprof.model.attribution import layers
from tpuprof.model.host_run import HostRun
from tpuprof.model.intervals import EMPTY, Int64, Spans, contains, intersect, merge, subtract
from tpuprof.parts import IDLE_PARTS, UNKNOWN


@dataclass(frozen=True)
class Periods:
    """Stretches in ps, in order and without overlap; `label` is a row of `names`, the parts of the breakdown."""

    names: list[str]
    start: Int64
    end: Int64
    label: Int64


def longest(run: HostRun, part: str, most: int) -> list[tuple[int, int]]:
    """(start, end) in ps of the longest stretches of one part inside steps, the longest first.

    As `periods`, but of one part alone, which costs a fraction of all.
    """
    device = run.devices[0] if run.devices else None
    own, earlier = EMPTY, [device.busy] if device and part in IDLE_PARTS else []
    for name, spans in layers(None if earlier else device, run.activity):
        if name == part:
            own = merge(own, subtract(spans, merge(*earlier, EMPTY)))
        earlier.append(spans)
    own = intersect(own, merge(Spans(run.steps.start, run.steps.end)))
    rows = np.argsort(own.start - own.end, kind="stable")[:most]
    return [(int(own.start[row]), int(own.end[row])) for row in rows]


def periods(run: HostRun) -> Periods:
    """What held each moment inside steps; with several devices, as the first of them saw it."""
    parts = layers(run.devices[0] if run.devices else None, run.activity)
    names = [*dict.fromkeys([*(name for name, _ in parts), UNKNOWN])]
    edges = [edge for _, spans in parts for edge in (spans.start, spans.end)]
    # Sorted by hand: numpy's `unique` hashes, which takes ten times as long.
    points = np.sort(np.concatenate([*edges, run.steps.start, run.steps.end]))
    points = points[np.append(True, points[1:] > points[:-1])] if len(points) else points
    begin, until = points[:-1], points[1:]
    label = np.full(len(begin), names.index(UNKNOWN), np.int64)
    for name, spans in reversed(parts):
        label[contains(spans, begin)] = names.index(name)
    row = np.searchsorted(run.steps.start, begin, "right") - 1
    inside = (row >= 0) & (begin < run.steps.end[np.maximum(row, 0)]) if len(run.steps) else row > len(row)
    begin, until, label = begin[inside], until[inside], label[inside]
    opens = np.ones(len(begin), np.bool_)
    opens[1:] = (label[1:] != label[:-1]) | (begin[1:] != until[:-1])
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(begin)) - 1 if len(first) else first
    return Periods(names, begin[first], until[last], label[first])
