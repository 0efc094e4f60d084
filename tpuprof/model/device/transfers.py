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
from tpuprof.model.device.activity import DeviceActivity, OpNames
from tpuprof.model.device.op_kind import HOST_MEMORY, OpKind, collective_kind, opcode
from tpuprof.model.device.transfer_motion import (
    BLOCKING,
    UNSEEN,
    Beside,
    Motion,
    Span,
    motion,
    served,
    shared,
)
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


class _Ops(NamedTuple):
    """The ops of one transfer: their rows, names and lines (of `OpNames.lines`), those that begin it, and its HLO line.

    `bytes` is the most that the profiler states of one of them, `line` empty where the trace has none.
    """

    rows: list[int]
    names: list[str]
    lines: list[int]
    starts: list[int]
    line: str
    bytes: int

    @staticmethod
    def of(device: DeviceActivity, rows: list[int]) -> _Ops:
        ops = device.ops
        starts = _starts(ops, rows)
        return _Ops(
            rows=rows,
            names=[ops.name[row] for row in rows],
            lines=ops.lines.of[rows].tolist(),
            starts=starts,
            line=next((ops.long_name[row] for row in starts if ops.long_name[row]), ""),
            bytes=max(ops.bytes[rows].tolist()),
        )


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
            directions = {key: _direction(_Ops.of(self._device, self._all[key]).line) for key in self._moving}
            turns = served(self._moving, directions)
        beside = Beside.of(self._device, shared(list(turns.values())))
        own = _own_events(
            self._device, {key: rows for key, rows in self._groups.items() if key in self._moving}
        )
        offload = self._kind == OpKind.OFFLOAD
        kinds = [] if offload else self._device.ops.by_line(_kind)
        found = []
        for key, rows in self._groups.items():
            each = _Ops.of(self._device, rows)
            if offload:
                kind, size = _direction(each.line), _counted(each.bytes, each.line)
            else:
                kind, size = (
                    next(filter(None, (kinds[line] for line in each.lines)), "collective fusion"),
                    each.bytes,
                )
            span = self._moving.get(key)
            if span is not None:
                moved = motion(self._steps, span, turns.get(key, span), union(*own[key]), beside, size)
            else:
                moved = BLOCKING if self._blocks(each) else UNSEEN
            found.append(_transfer(self._device, each, kind, size, self._totals, moved))
        return sorted(found, key=lambda transfer: -transfer.exposed_ps)

    def _blocks(self, each: _Ops) -> bool:
        """Whether a transfer is one op that occupies its core from start to end; a CPU's devices run side by side."""
        return self._device.count == 1 and not any(map(_PHASE.search, each.names))

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


def _transfer(
    device: DeviceActivity, each: _Ops, kind: str, size: int, totals: _Totals, moved: Motion
) -> Transfer:
    ops, rows, starts = device.ops, each.rows, each.starts
    first = starts[0]
    return Transfer(
        name=ops.name[first],
        kind=kind,
        program=ops.program[first],
        bytes=size,
        occurrences=-(-_sum_of(totals.occurrences, starts) // device.count),
        rate=moved.rate,
        rate_alone=moved.rate_alone,
        exposed_ps=_sum_of(totals.exposed, rows),
        hidden_ps=moved.hidden_ps,
        tensor=_tensor(each.line),
        source=next((ops.source[row] for row in rows if ops.source[row]), ""),
        scope=next((ops.scope[row] for row in rows if ops.scope[row]), ""),
        ahead_ps=_ahead(each, totals),
        waiting_ps=moved.waiting_ps,
        note=moved.note,
        across=not ops.across.isdisjoint(rows),
    )


def _ahead(each: _Ops, totals: _Totals) -> float | None:
    """Mean time from the end of a `-start` op to the beginning of its `-done`; None where counts do not match."""
    begun = [row for row, name in zip(each.rows, each.names, strict=True) if "-start" in name]
    awaited = [row for row, name in zip(each.rows, each.names, strict=True) if "-done" in name]
    count = _sum_of(totals.occurrences, begun)
    if not count or count != _sum_of(totals.occurrences, awaited):
        return None
    waited = sum(totals.begin[row] for row in awaited) - sum(totals.end[row] for row in begun)
    return max(waited / count, 0.0)


def _counted(stated: int, line: str) -> int:
    """Bytes that one execution of a copy moves.

    A cost model that counts the tensor wherever a copy's HLO line has it states twice or three times its bytes as laid
    out; else what the profiler states holds.
    """
    result = _RESULT.search(line)
    tensor = parse_shape(result.group(1)).padded_bytes if result else 0
    times = stated / tensor if tensor else 0.0
    counted = round(times) in COUNTED_TIMES and abs(times - round(times)) <= COUNTED_WITHIN
    return tensor if counted else stated


def _starts(ops: OpNames, rows: list[int]) -> list[int]:
    """Of the ops of one transfer those that begin it."""
    return [row for row in rows if "-done" not in ops.name[row]] or rows


def _kind(long_name: str, name: str, category: str) -> str:
    """What kind of collective an op is, by its opcode, else by its category or its name; empty where none tells."""
    texts = opcode(long_name, name), category, name
    return next(filter(None, map(collective_kind, texts)), "")


def _direction(long_name: str) -> str:
    """Which way a copy goes: the first element of a `-start`'s result, or a `-done`'s result, is the destination."""
    result = _RESULT.search(long_name)
    return TO_HOST if result and HOST_MEMORY in result.group(1) else TO_DEVICE


def _tensor(long_name: str) -> str:
    """The operand's name."""
    operand = _OPERAND.search(long_name.partition(" = ")[2])
    return operand.group(1) if operand else ""


def _short(long_name: str) -> str:
    return long_name.partition(" = ")[0].lstrip("%") if " = " in long_name else ""
