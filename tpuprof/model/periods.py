"""What each moment inside a host's steps counts for in the breakdown, as stretches of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuprof.model.attribution import UNKNOWN, layers
from tpuprof.model.intervals import Int64, contains
from tpuprof.model.run import HostRun


@dataclass(frozen=True)
class Periods:
    """Stretches in ps, in order and without overlap; `label` is a row of `names`, the parts of the breakdown."""

    names: list[str]
    start: Int64
    end: Int64
    label: Int64

    def longest(self, part: str, most: int) -> list[tuple[int, int]]:
        """(start, end) of the longest stretches of a part, the longest first."""
        if part not in self.names:
            return []
        rows = np.flatnonzero(self.label == self.names.index(part))
        rows = rows[np.argsort(self.start[rows] - self.end[rows], kind="stable")][:most]
        return [(int(self.start[row]), int(self.end[row])) for row in rows]


def periods(run: HostRun) -> Periods:
    """What held each moment inside steps; with several devices, as the first of them saw it."""
    parts = layers(run.devices[0] if run.devices else None, run.activity)
    names = [*dict.fromkeys([*(name for name, _ in parts), UNKNOWN])]
    edges = [edge for _, spans in parts for edge in (spans.start, spans.end)]
    points = np.unique(np.concatenate([*edges, run.steps.start, run.steps.end]))
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
