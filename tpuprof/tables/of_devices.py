"""Tables of what devices ran: ops, their executions, programs, copies and collectives, memory of programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.model.device.activity import DeviceActivity, OpEvents, OpNames
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.device.op_sums import op_sums
from tpuprof.model.device.transfers import Transfers
from tpuprof.model.host_run import HostRun
from tpuprof.tables.columns import arrow_table, coded, joined, known_only, rows_table, step_of

if TYPE_CHECKING:
    from tpuprof.tables.source import Source

_KINDS = [kind.name.lower() for kind in OpKind]
_GROUPS = {"offload": OpKind.OFFLOAD, "collective": OpKind.COLLECTIVE}


def ops(source: Source) -> Any:
    """One row per op, program and device that ran in the capture."""
    return joined("ops", [_ops(*each) for each in _lines(source)])


def op_events(source: Source) -> Any:
    """One row per execution of an op."""
    return joined("op_events", [_op_events(*each) for each in _lines(source)])


def programs(source: Source) -> Any:
    """One row per execution of a program."""
    tables = []
    for host, device in _devices(source):
        events = device.programs
        columns = {
            "program": coded(events.program, events.names),
            "step": step_of(host.steps, events.start),
            "start_ps": events.start,
            "duration_ps": events.end - events.start,
        }
        tables.append(arrow_table("programs", {"host": host.name, "device": device.name, **columns}))
    return joined("programs", tables)


def transfers(source: Source) -> Any:
    """One row per copy or collective of a program on a device."""
    return rows_table(
        "transfers",
        [
            (
                host.name,
                device.name,
                group,
                each.kind,
                each.name,
                each.program,
                each.bytes or None,
                each.occurrences,
                each.rate,
                each.exposed_ps,
                each.hidden_ps,
                each.waiting_ps,
                each.tensor,
                each.source,
                each.note,
            )
            for host, device in _devices(source)
            if len(host.steps)
            for group, kind in _GROUPS.items()
            for each in Transfers(device, host.steps, kind).rows()
        ],
    )


def program_memory(source: Source) -> Any:
    """One row per moment of each host's largest program."""
    return rows_table(
        "program_memory",
        [
            (host.name, host.memory.program, each.order, each.op, each.bytes)
            for host in source.run.hosts
            for each in host.memory.course
        ],
    )


def buffers(source: Source) -> Any:
    """One row per large buffer at the peak of each host's largest program."""
    return rows_table(
        "buffers",
        [
            (host.name, host.memory.program, each.name, each.bytes, each.shape, each.kind, each.source)
            for host in source.run.hosts
            for each in host.memory.buffers
        ],
    )


def _devices(source: Source) -> Iterator[tuple[HostRun, DeviceActivity]]:
    return ((host, device) for host in source.run.hosts for device in host.devices)


def _lines(source: Source) -> Iterator[tuple[HostRun, DeviceActivity, str, OpNames, OpEvents]]:
    """The ops on each device's core, and those beside it."""
    for host, device in _devices(source):
        yield host, device, "core", device.ops, device.op_events
        yield host, device, "async", device.async_ops, device.async_events


def _ops(host: HostRun, device: DeviceActivity, line: str, names: OpNames, events: OpEvents) -> Any:
    found = op_sums(events.op, events.start, events.end, events.self_ps, len(names), host.steps.spans)
    ran = np.flatnonzero(found.executions > 0)
    clock = names.clock_ps if len(names.clock_ps) else np.full(len(names), -1, np.int64)
    hbm = names.hbm_bytes if len(names.hbm_bytes) else names.bytes

    def chosen(texts: list[str]) -> list[str]:
        return [texts[row] for row in ran.tolist()]

    return arrow_table(
        "ops",
        {
            "host": host.name,
            "device": device.name,
            "op_id": ran,
            "line": line,
            "program": chosen(names.program),
            "op": chosen(names.name),
            "kind": coded(names.kind[ran], _KINDS),
            "category": chosen(names.category),
            "occurrences_count": found.executions[ran],
            "total_ps": found.total_ps[ran],
            "self_ps": found.self_ps[ran],
            "clock_ps": known_only(clock[ran], clock[ran] >= 0),
            "occurrences_in_steps_count": found.executions_in_steps[ran],
            "self_in_steps_ps": found.self_ps_in_steps[ran],
            # The profiler states no zeros: of an op without FLOPs it states nothing.
            "flops_count": known_only(names.flops[ran], names.flops[ran] > 0),
            "accessed_bytes": known_only(names.bytes[ran], names.bytes[ran] > 0),
            "hbm_bytes": known_only(hbm[ran], names.bytes[ran] > 0),
            "source": chosen(names.source),
            "scope": chosen(names.scope),
            "hlo": chosen(names.long_name),
        },
    )


def _op_events(host: HostRun, device: DeviceActivity, line: str, names: OpNames, events: OpEvents) -> Any:
    return arrow_table(
        "op_events",
        {
            "host": host.name,
            "device": device.name,
            "line": line,
            "op_id": events.op,
            "program": coded(*_by_op(events.op, names.program)),
            "op": coded(*_by_op(events.op, names.name)),
            "kind": coded(names.kind[events.op], _KINDS),
            "step": step_of(host.steps, events.start),
            "start_ps": events.start,
            "duration_ps": events.end - events.start,
            "self_ps": events.self_ps,
        },
    )


def _by_op(op: Any, texts: list[str]) -> tuple[Any, list[str]]:
    """A text of each event's op, as codes into distinct texts."""
    place: dict[str, int] = {}
    codes = np.fromiter((place.setdefault(text, len(place)) for text in texts), np.int64, len(texts))
    return codes[op], list(place)
