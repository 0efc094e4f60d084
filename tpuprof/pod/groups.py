"""Hosts that are alike."""

from __future__ import annotations

import numpy as np

from tpuprof.model.median import median
from tpuprof.pod.digest import Digest
from tpuprof.pod.summary import HostSummary
from tpuprof.report.pod import HostGroupRow
from tpuprof.units import PS_PER_MS

# Hosts named of a group (rows).
NAMED = 8


def _groups(found: list[HostSummary], digests: list[Digest]) -> list[list[int]]:
    """Rows of hosts with the same verdict, framework and program, the largest group first."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for row, (each, digest) in enumerate(zip(found, digests, strict=True)):
        groups.setdefault((digest.bound, each.framework, each.program), []).append(row)
    return sorted(groups.values(), key=lambda rows: (-len(rows), found[rows[0]].name))


def _mean_wall(each: HostSummary) -> float:
    return float(each.steps.wall_ps.mean()) if len(each.steps) else 0.0


def representative(found: list[HostSummary], digests: list[Digest]) -> int:
    """The host in the middle of the largest group, by its mean step."""
    return _middle(found, _groups(found, digests)[0])


def _middle(found: list[HostSummary], rows: list[int]) -> int:
    ordered = sorted(rows, key=lambda row: (_mean_wall(found[row]), found[row].name))
    return ordered[(len(ordered) - 1) // 2]


def group_rows(found: list[HostSummary], digests: list[Digest]) -> list[HostGroupRow]:
    """Groups of like hosts, the largest first; the sentence is that of the host in its middle."""
    return [_row(found, digests, rows) for rows in _groups(found, digests)]


def _row(found: list[HostSummary], digests: list[Digest], rows: list[int]) -> HostGroupRow:
    members = [found[row] for row in rows]
    walls = np.concatenate([each.steps.wall_ps for each in members]) / PS_PER_MS
    names = sorted({name for each in members for name in each.parts})
    sums = {
        name: sum(int(each.parts[name].sum()) for each in members if name in each.parts) for name in names
    }
    middle = digests[_middle(found, rows)]
    return HostGroupRow(
        hosts=len(rows),
        names=[each.name for each in members[:NAMED]],
        bound=middle.bound,
        program=members[0].program,
        text=middle.text,
        median_ms=median(walls) if len(walls) else None,
        parts_ms={name: total / len(walls) / PS_PER_MS for name, total in sums.items()} if len(walls) else {},
    )
