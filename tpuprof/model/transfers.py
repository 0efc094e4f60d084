"""Copies to and from host memory, and communication between chips: bytes, rate, exposed wait and hidden time.

On a TPU such work is asynchronous: a `-start` op begins it, a `-done` op waits for it. Its span on the
`Async XLA Ops` line is the work itself; the self time of its `-start` and `-done` on `XLA Ops` is what the
device spent on it and nothing hid. Where a capture has no such line (on some, only the first core has one),
the work's own span is unknown and only the exposed part is told.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from tpuprof.model.device import DeviceActivity
from tpuprof.model.intervals import EMPTY, Int64, Spans, covered, union
from tpuprof.model.median import median
from tpuprof.model.op_kind import HOST_MEMORY, OpKind, collective_kind, opcode
from tpuprof.model.steps import Steps
from tpuprof.records import dataclass

TO_HOST = "device_to_host"
TO_DEVICE = "host_to_device"
# A transfer counts as alone on the link while others overlap at most this share of it.
ALONE_SHARE = 0.01
# A copy whose turn on the link, by the order in which copies begin, was less than this share of its own span did not
# wait its turn (it ended with the copy before it): what it had alone is not told. Of 600 copies on a v6e, 101 had
# turns below a thousandth of their span, and no other one below 0.15 (share).
LEAST_TURN = 0.1
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


# A transfer goes by its program and its ops' name without `-start` and `-done`.
_Key = tuple[str, str]


class _Totals(NamedTuple):
    """Executions inside steps, by op: how many, their self time (ps), and sums of when they begin and end (ps).

    Lists, since they are looked up an op at a time.
    """

    occurrences: list[int]
    exposed: list[int]
    begin: list[float]
    end: list[float]


class Transfers:
    """The copies to and from host memory (`OpKind.OFFLOAD`) or the collectives of all kinds of one device."""

    def __init__(self, device: DeviceActivity, steps: Steps, kind: OpKind) -> None:
        names = device.ops
        groups: dict[_Key, list[int]] = {}
        for row in np.flatnonzero(names.kind == kind).tolist():
            groups.setdefault((names.module[row], _PHASE.sub("", names.name[row])), []).append(row)
        self._device, self._steps, self._kind = device, steps, kind
        self._totals = _totals_in_steps(device, steps)
        # Those with executions inside steps; others do not count, but do share the link.
        self._groups = {key: rows for key, rows in groups.items() if _sum_of(self._totals.occurrences, rows)}
        self._all = groups
        self._moving = _own_spans(device, list(groups))

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def told(self) -> int:
        """Of how many of them the trace has the work itself."""
        spans = [self._moving[key] for key in self._groups if key in self._moving]
        return sum(1 for start, end in spans if (end - start)[self._steps.hold(start)].sum())

    def rows(self) -> list[Transfer]:
        """Each of them, most exposed first."""
        served = self._moving
        if self._kind == OpKind.OFFLOAD:
            directions = {key: _direction(_long_name(self._device, self._all[key])) for key in self._moving}
            served = _served(self._moving, directions)
        shared = _shared(list(served.values()))
        found = [
            _transfer(
                self._device, self._steps, rows, self._totals, self._moving.get(key), served.get(key), shared
            )
            for key, rows in self._groups.items()
        ]
        return sorted(found, key=lambda transfer: -transfer.exposed_ps)


def _totals_in_steps(device: DeviceActivity, steps: Steps) -> _Totals:
    """Executions and self time of each op, of those that begin inside steps."""
    found = device.sums(steps.spans)
    columns = (found.executions_in_steps, found.self_ps_in_steps, found.begin_in_steps, found.end_in_steps)
    return _Totals(*(column.tolist() for column in columns))


def _sum_of(column: list[int], rows: list[int]) -> int:
    return sum(column[row] for row in rows)


def _own_spans(device: DeviceActivity, keys: list[_Key]) -> dict[_Key, tuple[Int64, Int64]]:
    """Start and end of each execution of the work itself, for the transfers that have any in the trace.

    Where the trace does not say which program a piece of work belongs to, every program with such a transfer has it.
    """
    names, events = device.async_ops, device.async_events
    by_base: dict[str, list[int]] = {}
    for row in range(len(names)):
        base = _PHASE.sub("", _short(names.long_name[row]) or names.name[row])
        by_base.setdefault(base, []).append(row)
    order = np.argsort(events.op, kind="stable")
    first = np.searchsorted(events.op[order], np.arange(len(names) + 1))
    spans = {}
    for key in keys:
        module, base = key
        rows = [row for row in by_base.get(base, []) if names.module[row] in ("", module)]
        if rows:
            chosen = np.sort(np.concatenate([order[first[row] : first[row + 1]] for row in rows]))
            spans[key] = (events.start[chosen], events.end[chosen])
    return {key: span for key, span in spans.items() if len(span[0])}


def _served(
    moving: dict[_Key, tuple[Int64, Int64]], directions: dict[_Key, str]
) -> dict[_Key, tuple[Int64, Int64]]:
    """When each copy had its direction of the link: copies of one direction are served in the order they begin.

    On a v6e, of three copies begun together the first runs at the rate of one alone, and the others after it.
    """
    served = dict(moving)
    for direction in set(directions.values()):
        keys = [key for key in moving if directions[key] == direction]
        start = np.concatenate([moving[key][0] for key in keys])
        end = np.concatenate([moving[key][1] for key in keys])
        order = np.argsort(start, kind="stable")
        reach = np.maximum.accumulate(end[order])
        begun = start[order].copy()
        begun[1:] = np.minimum(np.maximum(begun[1:], reach[:-1]), end[order][1:])
        start[order] = begun
        cuts = np.cumsum([len(moving[key][0]) for key in keys])[:-1]
        for key, part in zip(keys, np.split(start, cuts), strict=True):
            served[key] = (part, moving[key][1])
    return served


def _shared(moving: list[tuple[Int64, Int64]]) -> Spans:
    """When more than one of the transfers had the link."""
    each = [union(*span) for span in moving]
    if not each:
        return EMPTY
    start, end = np.concatenate([one.start for one in each]), np.concatenate([one.end for one in each])
    time = np.concatenate((start, end))
    change = np.repeat(np.array([1, -1], np.int8), len(start))
    order = np.argsort(time, kind="stable")
    time, count = time[order], np.cumsum(change[order], dtype=np.int64)
    several = np.flatnonzero(count[:-1] > 1)
    return union(time[several], time[several + 1])


def _transfer(
    device: DeviceActivity,
    steps: Steps,
    rows: list[int],
    totals: _Totals,
    span: tuple[Int64, Int64] | None,
    served: tuple[Int64, Int64] | None,
    shared: Spans,
) -> Transfer:
    ops = device.ops
    starts = _starts(device, rows)
    long_name = _long_name(device, rows)
    size = max(int(ops.bytes[row]) for row in rows)
    exposed = _sum_of(totals.exposed, rows)
    rate, alone, hidden = _motion(steps, span, served or span, shared, size, exposed)
    first = starts[0]
    return Transfer(
        name=ops.name[first],
        kind=_kind(device, rows, long_name),
        module=ops.module[first],
        bytes=size,
        occurrences=_sum_of(totals.occurrences, starts),
        rate=rate,
        rate_alone=alone,
        exposed_ps=exposed,
        hidden_ps=hidden,
        tensor=_tensor(long_name),
        source=next((ops.source[row] for row in rows if ops.source[row]), ""),
        scope=next((ops.scope[row] for row in rows if ops.scope[row]), ""),
        ahead_ps=_ahead(device, rows, totals),
    )


def _ahead(device: DeviceActivity, rows: list[int], totals: _Totals) -> float | None:
    """Mean time from the end of a `-start` op to the beginning of its `-done`; None where counts do not match."""
    begun = [row for row in rows if "-start" in device.ops.name[row]]
    awaited = [row for row in rows if "-done" in device.ops.name[row]]
    count = _sum_of(totals.occurrences, begun)
    if not count or count != _sum_of(totals.occurrences, awaited):
        return None
    waited = sum(totals.begin[row] for row in awaited) - sum(totals.end[row] for row in begun)
    return max(waited / count, 0.0)


def _motion(
    steps: Steps,
    span: tuple[Int64, Int64] | None,
    served: tuple[Int64, Int64] | None,
    shared: Spans,
    size: int,
    exposed: int,
) -> tuple[float | None, float | None, int | None]:
    """(rate, rate while alone on the link, hidden time) of the executions inside steps; rates of the median one."""
    if span is None or served is None:
        return None, None, None
    inside = steps.hold(span[0])
    start, end = span[0][inside], span[1][inside]
    length = end - start
    if not length.sum():
        return None, None, None
    begun = served[0][inside]
    turn = end - begun
    alone = (covered(shared, begun, end) <= ALONE_SHARE * turn) & (turn > 0) & (turn >= LEAST_TURN * length)
    undisturbed = turn[alone]
    rate = size / (median(length) / 1e12) if size else None
    rate_alone = size / (median(undisturbed) / 1e12) if size and len(undisturbed) else None
    return rate, rate_alone, max(int(length.sum()) - exposed, 0)


def _starts(device: DeviceActivity, rows: list[int]) -> list[int]:
    """Of the ops of one transfer those that begin it."""
    return [row for row in rows if "-done" not in device.ops.name[row]] or rows


def _long_name(device: DeviceActivity, rows: list[int]) -> str:
    """The HLO line of the op that begins a transfer, empty where the trace has none."""
    return next((device.ops.long_name[row] for row in _starts(device, rows) if device.ops.long_name[row]), "")


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
