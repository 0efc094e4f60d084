"""Copies to and from host memory, and communication between chips: bytes, rates, and what their time was spent beside.

On a TPU such work is asynchronous: a `-start` op begins it, a `-done` op waits for it. Its span on the
`Async XLA Ops` line is the work itself; the self time of its `-start` and `-done` on `XLA Ops` is what the
device spent on it and nothing hid. Where a capture has no such line (on some, only the first core has one),
the work's own span is unknown and only the exposed part is known. `transfer_motion.py` looks at the spans.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from tpuprof.decode.hlo_shape import parse_shape
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.op_kind import HOST_MEMORY, OpKind, collective_kind, opcode
from tpuprof.model.device.transfer_motion import BLOCKING, Beside, Motion, Span, motion, served, shared
from tpuprof.model.intervals import union
from tpuprof.model.steps import Steps
from tpuprof.records import record

TO_HOST = "device_to_host"
TO_DEVICE = "host_to_device"
# How often the bytes of a copy may count its tensor: source and destination, and the result's own pair of them. The
# rest, a context of some bytes, is within this share of the tensor.
COUNTED_TIMES = (2, 3)
COUNTED_WITHIN = 0.01
_OPERAND = re.compile(r"%([\w.\-]+)\)?(?:[,)]|$)")
_RESULT = re.compile(r"= \(?([a-z0-9]+\[[^\]]*\](?:\{[^}]*\})?)")
_PHASE = re.compile(r"-(start|done)(?=\.|$)")


@record(frozen=True)
class Transfer:
    """One copy or collective of a program on one device, over all its executions inside steps.

    `kind` is a direction (`device_to_host`, `host_to_device`) or a kind of collective. `rate` and `rate_alone`
    are bytes/s. `exposed_ps` is what the device spent on this transfer alone. Of the time in flight, `hidden_ps` is
    what the device computed meanwhile, `waiting_ps` what it waited for other transfers. All are sums; None where the
    trace cannot tell, for the reason in `note`.
    """

    name: str
    kind: str
    program: str
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
    waiting_ps: int | None = None
    note: str = ""
    # Whether it goes through the hosts and the data centre network to another slice.
    across: bool = False


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
            groups.setdefault((names.program[row], _PHASE.sub("", names.name[row])), []).append(row)
        self._device, self._steps, self._kind = device, steps, kind
        self._totals = _totals_in_steps(device, steps)
        # Those with executions inside steps; others do not count, but do share the link.
        self._groups = {key: rows for key, rows in groups.items() if _sum_of(self._totals.occurrences, rows)}
        self._all = groups
        self._moving = _own_spans(device, list(groups))

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def with_spans(self) -> int:
        """Of how many of them the trace has the work itself."""
        spans = [self._moving[key] for key in self._groups if key in self._moving]
        return sum(1 for start, end in spans if (end - start)[self._steps.hold(start)].sum())

    def rows(self) -> list[Transfer]:
        """Each of them, most exposed first."""
        turns = self._moving
        if self._kind == OpKind.OFFLOAD:
            directions = {key: _direction(_long_name(self._device, self._all[key])) for key in self._moving}
            turns = served(self._moving, directions)
        beside = Beside.of(self._device, shared(list(turns.values())))
        own = _own_events(self._device, self._groups)
        found = []
        for key, rows in self._groups.items():
            size = _size(self._device, rows)
            span = self._moving.get(key)
            moved = motion(self._steps, span, turns.get(key, span), union(*own[key]), beside, size)
            if span is None and self._blocks(rows):
                moved = BLOCKING
            found.append(_transfer(self._device, rows, self._totals, moved, size))
        return sorted(found, key=lambda transfer: -transfer.exposed_ps)

    def _blocks(self, rows: list[int]) -> bool:
        """Whether a transfer is one op that occupies its core from start to end; a CPU's devices run side by side."""
        return self._device.count == 1 and not any(_PHASE.search(self._device.ops.name[row]) for row in rows)

    @property
    def in_flight(self) -> list[Span]:
        """Start and end of each execution of the work itself, transfer by transfer, inside steps or not."""
        return list(self._moving.values())


def _totals_in_steps(device: DeviceActivity, steps: Steps) -> _Totals:
    """Executions and self time of each op, of those that begin inside steps."""
    found = device.sums(steps.spans)
    exposed = (found.self_ps_in_steps * device.wall_factor(steps.spans)[device.ops.kind]).astype(np.int64)
    columns = (found.executions_in_steps, exposed, found.begin_in_steps, found.end_in_steps)
    return _Totals(*(column.tolist() for column in columns))


def _sum_of(column: list[int], rows: list[int]) -> int:
    return sum(column[row] for row in rows)


def _own_spans(device: DeviceActivity, keys: list[_Key]) -> dict[_Key, Span]:
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
        program, base = key
        rows = [row for row in by_base.get(base, []) if names.program[row] in ("", program)]
        if rows:
            chosen = np.sort(np.concatenate([order[first[row] : first[row + 1]] for row in rows]))
            spans[key] = (events.start[chosen], events.end[chosen])
    return {key: span for key, span in spans.items() if len(span[0])}


def _own_events(device: DeviceActivity, groups: dict[_Key, list[int]]) -> dict[_Key, Span]:
    """When the device ran the `-start` and `-done` ops of each transfer."""
    events, member = device.op_events, np.full(len(device.ops) + 1, -1, np.int64)
    for number, rows in enumerate(groups.values()):
        member[rows] = number
    of = member[events.op]
    chosen = np.flatnonzero(of >= 0)
    chosen = chosen[np.argsort(of[chosen], kind="stable")]
    cuts = np.searchsorted(of[chosen], np.arange(1, len(groups)))
    parts = np.split(chosen, cuts) if groups else []
    return {key: (events.start[part], events.end[part]) for key, part in zip(groups, parts, strict=True)}


def _transfer(device: DeviceActivity, rows: list[int], totals: _Totals, moved: Motion, size: int) -> Transfer:
    ops = device.ops
    starts = _starts(device, rows)
    long_name = _long_name(device, rows)
    first = starts[0]
    return Transfer(
        name=ops.name[first],
        kind=_kind(device, rows, long_name),
        program=ops.program[first],
        bytes=size,
        occurrences=-(-_sum_of(totals.occurrences, starts) // device.count),
        rate=moved.rate,
        rate_alone=moved.rate_alone,
        exposed_ps=_sum_of(totals.exposed, rows),
        hidden_ps=moved.hidden_ps,
        tensor=_tensor(long_name),
        source=next((ops.source[row] for row in rows if ops.source[row]), ""),
        scope=next((ops.scope[row] for row in rows if ops.scope[row]), ""),
        ahead_ps=_ahead(device, rows, totals),
        waiting_ps=moved.waiting_ps,
        note=moved.note,
        across=not ops.across.isdisjoint(rows),
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


def _size(device: DeviceActivity, rows: list[int]) -> int:
    """Bytes that one execution moves.

    A cost model that counts the tensor wherever a copy's HLO line has it states twice or three times its bytes as laid
    out; else what the profiler states holds.
    """
    stated = max(int(device.ops.bytes[row]) for row in rows)
    if device.ops.kind[rows[0]] != OpKind.OFFLOAD:
        return stated
    result = _RESULT.search(_long_name(device, rows))
    tensor = parse_shape(result.group(1)).padded_bytes if result else 0
    times = stated / tensor if tensor else 0.0
    counted = round(times) in COUNTED_TIMES and abs(times - round(times)) <= COUNTED_WITHIN
    return tensor if counted else stated


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
