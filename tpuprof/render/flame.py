"""The host's time as an icicle: sampled Python stacks merged from the outermost frame in, exposed beside hidden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuprof.report.sections import HostStackRow

EXPOSED, HIDDEN = "device idle: costs step time", "behind device work"
# Frames deeper than this are merged into the last one drawn (frames): a page draws them at a readable height.
MAX_DEPTH = 32
# Cells narrower than this are left out (share of all time): nobody can see or point at them.
LEAST_SHARE = 0.002


@dataclass(frozen=True)
class Cell:
    """One frame of the icicle; `start` and `ms` are ms per step along the axis, `depth` counts from 0 at the branch.

    `parent` is the position of the cell that holds it, -1 for the two branches. `part` is the part of the breakdown
    that most of its time went to.
    """

    name: str
    part: str
    branch: str
    depth: int
    start: float
    ms: float
    parent: int


@dataclass
class _Node:
    ms: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)
    inner: dict[str, _Node] = field(default_factory=dict)

    def add(self, part: str, ms: float) -> None:
        self.ms += ms
        self.parts[part] = self.parts.get(part, 0.0) + ms


def icicle(rows: Sequence[HostStackRow]) -> list[Cell]:
    """The cells, outer before inner and larger before smaller; empty where nothing was sampled."""
    branches = {EXPOSED: _Node(), HIDDEN: _Node()}
    for row in rows:
        for name, ms in ((EXPOSED, row.exposed_ms_per_step), (HIDDEN, row.hidden_ms_per_step)):
            if ms > 0:
                _grow(branches[name], row, ms)
    total = sum(node.ms for node in branches.values())
    cells: list[Cell] = []
    start = 0.0
    for name, node in branches.items():
        if node.ms > 0:
            _lay(cells, node, Cell(name, "", name, 0, start, node.ms, -1), LEAST_SHARE * total)
            start += node.ms
    return cells


def _grow(node: _Node, row: HostStackRow, ms: float) -> None:
    node.add(row.part, ms)
    for frame in row.frames[: MAX_DEPTH - 1]:
        node = node.inner.setdefault(frame, _Node())
        node.add(row.part, ms)


def _lay(cells: list[Cell], node: _Node, place: Cell, least: float) -> None:
    """Add a node's cell and those inside it; what is too narrow leaves a gap, so that all widths stay true."""
    part = max(node.parts, key=lambda name: node.parts[name])
    row = len(cells)
    cells.append(replace(place, part=part))
    start = place.start
    for name, inner in sorted(node.inner.items(), key=lambda item: -item[1].ms):
        if inner.ms >= least:
            inside = Cell(name, "", place.branch, place.depth + 1, start, inner.ms, row)
            _lay(cells, inner, inside, least)
        start += inner.ms


def short_frame(frame: str) -> str:
    """`step (/long/way/torch/optim/adam.py:411)` as `step (adam.py:411)`: what fits into a cell."""
    name, bracket, place = frame.partition(" (")
    return f"{name} ({place.replace(chr(92), '/').rpartition('/')[2]}" if bracket else frame
