"""SparseCores beside a TensorCore: when they worked, and what asynchronous work of the TensorCore ran there.

A collective or a custom call that is handed to a SparseCore has its `-start` and `-done` on the TensorCore, no span on
`Async XLA Ops`, and its work on the SparseCore's `Sparse Core Ops`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tpuprof.decode.columns import Plane
from tpuprof.model.device.activity import OpEvents, OpNames
from tpuprof.model.device.op_kind import op_kind
from tpuprof.model.device.op_lines import op_lines
from tpuprof.model.intervals import EMPTY, Int64, Spans, distinct, merge, union
from tpuprof.model.timeline import Track

OPS_LINE = "Sparse Core Ops"


class SparseWork(NamedTuple):
    """Ops of all SparseCores of one device: each op's name and HLO line (else its name), and its executions (ps)."""

    busy: Spans
    names: list[tuple[str, str]]
    op: Int64
    start: Int64
    end: Int64


def read_sparse(planes: Sequence[tuple[Plane, list[Track]]]) -> SparseWork | None:
    """The work of these planes; None without any."""
    if not planes:
        return None
    names: list[tuple[str, str]] = []
    parts: list[tuple[Int64, Int64, Int64]] = []
    for plane, tracks in planes:
        for track in (each for each in tracks if each.label == OPS_LINE):
            used, op = distinct(track.name_row)
            parts.append((op + len(names), track.start, track.end))
            names += [_name(plane, row) for row in used.tolist()]
    none = np.empty(0, np.int64)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [none, none, none]
    busy = merge(*(union(start, end) for _, start, end in parts), EMPTY)
    return SparseWork(busy, names, *columns)


def _name(plane: Plane, row: int) -> tuple[str, str]:
    if row < 0:
        return "", ""
    long_name, short = plane.events.names[row], plane.events.display_names[row]
    return short or long_name.partition(" = ")[0].lstrip("%"), long_name


def with_sparse(names: OpNames, events: OpEvents, work: SparseWork) -> tuple[OpNames, OpEvents]:
    """A device's asynchronous ops with those that its SparseCores ran."""
    if not work.names:
        return names, events
    many, zeros = len(work.names), np.zeros(len(work.names), np.int64)
    blank = [""] * many
    name = [*names.name, *(short for short, _ in work.names)]
    long_name = [*names.long_name, *(long_name for _, long_name in work.names)]
    category = [*names.category, *blank]
    longer = replace(
        names,
        name=name,
        long_name=long_name,
        category=category,
        lines=op_lines(long_name, name, category),
        kind=np.append(names.kind, [op_kind(long_name, short, "") for short, long_name in work.names]),
        program=[*names.program, *blank],
        source=[*names.source, *blank],
        scope=[*names.scope, *blank],
        flops=np.append(names.flops, zeros),
        bytes=np.append(names.bytes, zeros),
        clock_ps=np.append(names.clock_ps, zeros - 1) if len(names.clock_ps) else names.clock_ps,
        hbm_bytes=np.append(names.hbm_bytes, zeros) if len(names.hbm_bytes) else names.hbm_bytes,
    )
    order = np.argsort(np.append(events.start, work.start), kind="stable")
    columns = (
        np.append(events.op, work.op + len(names))[order],
        np.append(events.start, work.start)[order],
        np.append(events.end, work.end)[order],
        np.append(events.self_ps, work.end - work.start)[order],
    )
    return longer, OpEvents(*columns)
