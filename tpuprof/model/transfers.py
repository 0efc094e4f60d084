"""Copies to and from host memory, and communication between chips: bytes, rate, exposed wait and hidden time.

On a TPU such work is asynchronous: a `-start` op begins it, a `-done` op waits for it. Its span on the
`Async XLA Ops` line is the work itself; the self time of its `-start` and `-done` on `XLA Ops` is what the
device spent on it and nothing hid. Where a capture has no such line (on some, only the first core has one),
the work's own span is unknown and only the exposed part is told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tpuprof.model.device import DeviceActivity
from tpuprof.model.intervals import Bool, Int64, Spans, covered, merge, union
from tpuprof.model.op_kind import HOST_MEMORY, OpKind, collective_kind, opcode
from tpuprof.model.steps import Steps

TO_HOST = "device_to_host"
TO_DEVICE = "host_to_device"
# A transfer counts as alone on the link while others overlap at most this share of it.
ALONE_SHARE = 0.01
_OPERAND = re.compile(r"%([\w.\-]+)\)?(?:[,)]|$)")
_RESULT = re.compile(r"= \(?([a-z0-9]+\[[^\]]*\](?:\{[^}]*\})?)")
_PHASE = re.compile(r"-(start|done)(?=\.|$)")


@dataclass(frozen=True)
class Transfer:
    """One copy or collective of a program on one device, over all its executions inside steps.

    `kind` is a direction (`device_to_host`, `host_to_device`) or a kind of collective. `rate` and `rate_alone`
    are bytes/s, `exposed_ps` and `hidden_ps` sums; None where the trace cannot tell.
    """

    name: str
    kind: str
    module: str
    bytes: int
    occurrences: int
    rate: float | None
    rate_alone: float | None
    exposed_ps: int
    hidden_ps: int | None
    tensor: str
    source: str
    scope: str
    # How long after its start was issued the device came to wait for it, on average; None where it has no start.
    ahead_ps: float | None = None


def offload_transfers(device: DeviceActivity, steps: Steps) -> list[Transfer]:
    """Copies to and from host memory, most exposed first."""
    return _transfers(device, steps, OpKind.OFFLOAD)


def collective_transfers(device: DeviceActivity, steps: Steps) -> list[Transfer]:
    """Collectives of all kinds, most exposed first."""
    return _transfers(device, steps, OpKind.COLLECTIVE)


def _transfers(device: DeviceActivity, steps: Steps, kind: OpKind) -> list[Transfer]:
    groups: dict[tuple[str, str], list[int]] = {}
    for row in np.flatnonzero(device.ops.kind == kind).tolist():
        groups.setdefault((device.ops.module[row], _PHASE.sub("", device.ops.name[row])), []).append(row)
    moving = {key: _own_span(device, key) for key in groups}
    found = []
    for key, rows in groups.items():
        others = merge(*(union(*span) for other, span in moving.items() if other != key and span is not None))
        each = _transfer(device, steps, rows, moving[key], others)
        if each is not None:
            found.append(each)
    return sorted(found, key=lambda transfer: -transfer.exposed_ps)


def _own_span(device: DeviceActivity, key: tuple[str, str]) -> tuple[Int64, Int64] | None:
    """Start and end of each execution of the work itself, None where the trace has none."""
    names, events = device.async_ops, device.async_events
    module, base = key
    wanted = [
        row
        for row in range(len(names))
        if _PHASE.sub("", _short(names.long_name[row]) or names.name[row]) == base
        and names.module[row] in ("", module)
    ]
    chosen = np.isin(events.op, np.array(wanted, np.int64))
    return (events.start[chosen], events.end[chosen]) if chosen.any() else None


def _transfer(
    device: DeviceActivity, steps: Steps, rows: list[int], span: tuple[Int64, Int64] | None, others: Spans
) -> Transfer | None:
    ops, events = device.ops, device.op_events
    in_step = _inside(steps, events.start)
    chosen = np.isin(events.op, np.array(rows, np.int64)) & in_step
    if not chosen.any():
        return None
    starts = [row for row in rows if "-done" not in ops.name[row]] or rows
    long_name = next((ops.long_name[row] for row in starts if ops.long_name[row]), "")
    size = max(int(ops.bytes[row]) for row in rows)
    exposed = int(events.self_ps[chosen].sum())
    rate, alone, hidden = _motion(steps, span, others, size, exposed)
    first = starts[0]
    return Transfer(
        name=ops.name[first],
        kind=_kind(device, rows, long_name),
        module=ops.module[first],
        bytes=size,
        occurrences=int((np.isin(events.op, np.array(starts, np.int64)) & in_step).sum()),
        rate=rate,
        rate_alone=alone,
        exposed_ps=exposed,
        hidden_ps=hidden,
        tensor=_tensor(long_name),
        source=next((ops.source[row] for row in rows if ops.source[row]), ""),
        scope=next((ops.scope[row] for row in rows if ops.scope[row]), ""),
        ahead_ps=_ahead(device, rows, in_step),
    )


def _ahead(device: DeviceActivity, rows: list[int], in_step: Bool) -> float | None:
    """Mean time from the end of a `-start` op to the beginning of its `-done`, execution by execution."""
    events = device.op_events
    phases = [
        np.array([row for row in rows if mark in device.ops.name[row]], np.int64)
        for mark in ("-start", "-done")
    ]
    issued, waited = (np.flatnonzero(np.isin(events.op, phase) & in_step) for phase in phases)
    if not len(issued) or len(issued) != len(waited):
        return None
    begun, awaited = np.sort(events.end[issued]), np.sort(events.start[waited])
    return float((awaited - begun).mean()) if (awaited >= begun).all() else None


def _motion(
    steps: Steps, span: tuple[Int64, Int64] | None, others: Spans, size: int, exposed: int
) -> tuple[float | None, float | None, int | None]:
    """(mean rate, rate while alone on the link, hidden time) of the executions inside steps."""
    if span is None:
        return None, None, None
    inside = _inside(steps, span[0])
    start, end = span[0][inside], span[1][inside]
    length = end - start
    if not length.sum():
        return None, None, None
    rate = size * len(length) / (int(length.sum()) / 1e12) if size else None
    alone = covered(others, start, end) <= ALONE_SHARE * length
    undisturbed = int(length[alone].sum())
    rate_alone = size * int(alone.sum()) / (undisturbed / 1e12) if size and undisturbed else None
    return rate, rate_alone, max(int(length.sum()) - exposed, 0)


def _kind(device: DeviceActivity, rows: list[int], long_name: str) -> str:
    names = device.ops
    if names.kind[rows[0]] == OpKind.OFFLOAD:
        return _direction(long_name)
    texts = [
        text
        for row in rows
        for text in (opcode(names.long_name[row], names.name[row]), names.category[row], names.name[row])
    ]
    return next((kind for kind in map(collective_kind, texts) if kind), "collective fusion")


def _direction(long_name: str) -> str:
    """Which way a copy goes: the first element of a `-start`'s result, or a `-done`'s result, is the destination."""
    result = _RESULT.search(long_name)
    return TO_HOST if result and HOST_MEMORY in result.group(1) else TO_DEVICE


def _tensor(long_name: str) -> str:
    """The operand's name."""
    operands = _OPERAND.findall(long_name.partition(" = ")[2])
    return operands[0] if operands else ""


def _short(long_name: str) -> str:
    return long_name.partition(" = ")[0].lstrip("%") if " = " in long_name else ""


def _inside(steps: Steps, start: Int64) -> Bool:
    """Whether each time lies in a step."""
    if not len(steps):
        return np.zeros(len(start), np.bool_)
    row = np.searchsorted(steps.start, start, "right") - 1
    inside: Bool = (row >= 0) & (start < steps.end[np.maximum(row, 0)])
    return inside
