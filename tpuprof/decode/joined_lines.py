"""Lines of one name on a plane: pieces that follow each other are joined, of lines side by side the longest stays.

XPlane knows lines by their ids. Where traces were cut into pieces and joined again, a queue has a line for each piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tpuprof.decode.columns import Line, StatKind, StatSums, StatTable
from tpuprof.units import PS_PER_NS


def one_of_each(lines: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """A line for each name that has events, and the lines that are left out, since they lie beside a longer one."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        if len(line):
            groups.setdefault(line.name, []).append(line)
    kept, left_out = [], []
    for group in groups.values():
        ordered = sorted(group, key=_first) if len(group) > 1 else group
        if all(_last(before) < _first(after) for before, after in pairwise(ordered)):
            kept.append(_joined(ordered) if len(ordered) > 1 else ordered[0])
            continue
        longest = max(group, key=len)
        kept.append(longest)
        left_out += [line for line in group if line is not longest]
    return kept, left_out


def _first(line: Line) -> int:
    """When the first event begins; a `while` of one piece may last into the next, so that ends do not count."""
    return line.timestamp_ns * PS_PER_NS + int(line.offset_ps.min())


def _last(line: Line) -> int:
    return line.timestamp_ns * PS_PER_NS + int(line.offset_ps.max())


def _joined(lines: list[Line]) -> Line:
    """All events of the lines as those of the first, in their order."""
    first = lines[0]
    sizes = [len(line) for line in lines]
    begins = np.cumsum([0, *sizes[:-1]]).tolist()
    moved = [line.offset_ps + (line.timestamp_ns - first.timestamp_ns) * PS_PER_NS for line in lines]

    def read_stats(keys: Sequence[int]) -> StatTable:
        return _stacked([line.read_stats(keys) for line in lines], begins)

    return Line(
        first.id,
        first.name,
        first.timestamp_ns,
        np.concatenate([line.metadata_id for line in lines]),
        np.concatenate(moved),
        np.concatenate([line.duration_ps for line in lines]),
        read_stats,
        {
            key: _added([line.sums[key] for line in lines])
            for key in first.sums
            if all(key in line.sums for line in lines)
        },
    )


def _stacked(tables: list[StatTable], begins: list[int]) -> StatTable:
    """The tables as one, their rows counted on and their texts behind each other."""
    heaps = [bytes(each.heap) for each in tables]
    at = np.cumsum([0, *map(len, heaps[:-1])]).tolist()
    bits = []
    for table, shift in zip(tables, at, strict=True):
        in_heap = (table.kind == StatKind.STR) | (table.kind == StatKind.BYTES)
        bits.append(np.where(in_heap, table.bits + np.uint64(shift), table.bits))
    return StatTable(
        np.concatenate([each.row + begin for each, begin in zip(tables, begins, strict=True)]),
        np.concatenate([each.key for each in tables]),
        np.concatenate([each.kind for each in tables]),
        np.concatenate(bits),
        np.concatenate([each.length for each in tables]),
        b"".join(heaps),
    )


def _added(sums: list[StatSums]) -> StatSums:
    return StatSums(
        np.sum([each.total for each in sums], axis=0),
        np.any([each.negative for each in sums], axis=0),
        sum(each.having for each in sums),
    )
