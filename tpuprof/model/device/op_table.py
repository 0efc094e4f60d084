"""Sums device time by op, and by the user's annotations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np

from tpuprof.model.compile.hlo_metadata import scope_names
from tpuprof.model.device.activity import DeviceActivity, OpNames
from tpuprof.model.device.op_facts import OpFacts, op_facts
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.device.op_sums import OpSums
from tpuprof.model.host.activity import Annotations
from tpuprof.model.intervals import Int64
from tpuprof.model.steps import Steps
from tpuprof.parallel import in_threads
from tpuprof.records import record
from tpuprof.units import PS_PER_MS

# Ends the scope of ops traced in a module's backward pass; tpuprof.annotate_modules writes it.
_BACKWARD = "@backward"


@record
class OpTotal:
    """One op of one program over all its executions on all devices; times in ps.

    `step_ps` is its part of the devices' own time in steps, so that ops add up to the parts of the breakdown; whole
    picoseconds of each device, so that sums do not depend on the order of devices. `clock_ps` is time by the devices'
    own clocks, None where one of them states none.
    """

    name: str
    category: str
    kind: OpKind
    program: str
    source: str
    scope: str
    flops: int
    bytes: int
    facts: OpFacts
    hbm_bytes: int = 0
    occurrences: int = 0
    total_ps: int = 0
    self_ps: int = 0
    step_ps: int = 0
    clock_ps: int | None = None
    cores: CoresOf | None = field(default=None, repr=False, compare=False)


@record
class AnnotationTotal:
    """Host time inside an annotation and device self time of ops traced under it (None: unknown), in ps.

    `host_step_ps` and `device_step_ps` are of what is in steps.
    """

    name: str
    kind: str
    occurrences: int
    host_ps: int
    device_ps: int | None
    host_step_ps: int = 0
    device_step_ps: float | None = None


def op_totals(hosts: list[tuple[str, list[DeviceActivity], Steps]]) -> list[OpTotal]:
    """Every op of the devices of all hosts, the one with most self time first.

    Each host gives its name, its devices and its steps. Where there are several, a device's name says its host's.
    """
    devices = [(device, steps) for _, of_host, steps in hosts for device in of_host]
    names = [
        f"{device.name} of {host}" if len(hosts) > 1 else device.name
        for host, of_host, _ in hosts
        for device in of_host
    ]
    sums = in_threads(lambda each: each[0].sums(each[1].spans), devices)
    rows, first = _rows_of([device for device, _ in devices], [found.executions for found in sums])
    whole, in_steps = np.zeros((3, len(first)), np.int64), np.zeros(len(first), np.int64)
    for (device, steps), found, row in zip(devices, sums, rows, strict=True):
        for total, column in zip(whole, (found.executions, found.total_ps, found.self_ps), strict=True):
            np.add.at(total, row, np.where(found.executions > 0, column, 0))
        own = np.rint(found.self_ps_in_steps * device.wall_factor(steps.spans)[device.ops.kind])
        np.add.at(in_steps, row, own.astype(np.int64))
    cores = _cores(names, devices, sums, rows, len(first))
    columns = *(column.tolist() for column in whole), in_steps.tolist()
    stated = {key: _stated(ops) for key, ops in {id(each.ops): each.ops for each, _ in first}.items()}
    totals = [
        _op_total(stated[id(device.ops)], at, sums_of, CoresOf(cores, row))
        for row, ((device, at), *sums_of) in enumerate(zip(first, *columns, strict=True))
    ]
    order = by_self_time([(op.self_ps, op.name, op.program) for op in totals])
    return [totals[row] for row in order]


def by_self_time(ops: list[tuple[int, str, str]]) -> list[int]:
    """The order in which ops are listed: by self time, the most first, then by name and program."""
    return sorted(range(len(ops)), key=lambda row: (-ops[row][0], *ops[row][1:]))


def _rows_of(
    devices: list[DeviceActivity], executions: list[Int64]
) -> tuple[list[Int64], list[tuple[DeviceActivity, int]]]:
    """By device the row of each of its ops, one a (program, op); and of each row the first device that ran it.

    Ops that a device did not run have row 0, and count nothing.
    """
    number: dict[tuple[str, str], int] = {}
    first: list[tuple[DeviceActivity, int]] = []
    found: list[Int64] = []
    for device, count in zip(devices, executions, strict=True):
        ops, ran = device.ops, count > 0
        before = devices[len(found) - 1] if found else None
        # Devices that share a program have the same ops in the same order.
        if (
            before is not None
            and before.ops.name == ops.name
            and before.ops.program == ops.program
            and not (ran & (executions[len(found) - 1] == 0)).any()
        ):
            found.append(found[-1])
            continue
        row = np.zeros(len(ops), np.int64)
        for at in np.flatnonzero(ran).tolist():
            row[at] = number.setdefault((ops.program[at], ops.name[at]), len(number))
            if len(number) > len(first):
                first.append((device, at))
        found.append(row)
    return found, first


class CoreTable(NamedTuple):
    """What each device says of each op, op by op: the rows of op i lie between `place[i]` and `place[i + 1]`.

    `clock_ms` is by the device's own clock, None where it states none. `clock_ps` is by op, the sum over its devices,
    None where one of them states none: a sum of some would be taken for that of all.
    """

    place: list[int]
    device: list[str]
    occurrences: list[int]
    total_ms: list[float]
    clock_ms: list[float | None]
    clock_ps: list[int | None]


class CoresOf(NamedTuple):
    """What devices say of one op."""

    table: CoreTable
    row: int

    def columns(self) -> tuple[list[str], list[int], list[float], list[float | None]]:
        """Of each device that ran it: its name, executions, and their time (ms) on the timeline and by its clock."""
        table, own = self.table, slice(self.table.place[self.row], self.table.place[self.row + 1])
        return table.device[own], table.occurrences[own], table.total_ms[own], table.clock_ms[own]

    def clock_ps(self) -> int | None:
        """Time on all devices, None where one of them states none."""
        return self.table.clock_ps[self.row]


def _cores(
    names: list[str],
    devices: list[tuple[DeviceActivity, Steps]],
    sums: list[OpSums],
    rows: list[Int64],
    ops: int,
) -> CoreTable:
    none = np.empty(0, np.int64)
    ran = [np.flatnonzero(found.executions > 0) for found in sums]
    clocks = [
        device.ops.clock_ps if len(device.ops.clock_ps) else np.full(len(device.ops), -1, np.int64)
        for device, _ in devices
    ]
    row = np.concatenate([none, *(own[at] for own, at in zip(rows, ran, strict=True))])
    order = np.argsort(row, kind="stable")
    count, total, clock = (
        np.concatenate([none, *(column[at] for column, at in zip(columns, ran, strict=True))])[order]
        for columns in ([found.executions for found in sums], [found.total_ps for found in sums], clocks)
    )
    device = np.repeat(np.arange(len(devices)), [len(at) for at in ran])[order].tolist()
    place = np.searchsorted(row[order], np.arange(ops + 1))
    clock_ms: list[float | None] = (clock / PS_PER_MS).tolist()
    for each in np.flatnonzero(clock < 0).tolist():
        clock_ms[each] = None
    return CoreTable(
        place.tolist(),
        [names[each] for each in device],
        count.tolist(),
        (total / PS_PER_MS).tolist(),
        clock_ms,
        _clock_sums(clock, place[:-1]),
    )


def _clock_sums(clock: Int64, first: Int64) -> list[int | None]:
    """The sum of each stretch of rows, None where a row of it is below zero; no stretch is empty."""
    if not len(first):
        return []
    known = np.minimum.reduceat(clock, first) >= 0
    sums: list[int | None] = np.add.reduceat(clock, first).tolist()
    for each in np.flatnonzero(~known).tolist():
        sums[each] = None
    return sums


class _Stated(NamedTuple):
    """What is stated of a device's ops; numbers as lists, since they are looked up an op at a time."""

    names: OpNames
    kind: list[OpKind]
    flops: list[int]
    bytes: list[int]
    hbm_bytes: list[int]


def _stated(ops: OpNames) -> _Stated:
    kinds = {int(kind): kind for kind in OpKind}
    moved = ops.hbm_bytes if len(ops.hbm_bytes) else ops.bytes
    kind = [kinds[each] for each in ops.kind.tolist()]
    return _Stated(ops, kind, ops.flops.tolist(), ops.bytes.tolist(), moved.tolist())


def _op_total(stated: _Stated, at: int, sums: list[Any], cores: CoresOf) -> OpTotal:
    ops, kind = stated.names, stated.kind[at]
    count, total_ps, self_ps, step_ps = sums
    facts = op_facts(ops.name[at], ops.long_name[at], ops.category[at], kind, ops.fused.get(at))
    return OpTotal(
        name=ops.name[at],
        category=ops.category[at],
        kind=kind,
        program=ops.program[at],
        source=ops.source[at],
        scope=ops.scope[at],
        flops=stated.flops[at],
        bytes=stated.bytes[at],
        facts=facts._replace(unclear=True) if at in ops.unclear else facts,
        hbm_bytes=stated.hbm_bytes[at],
        occurrences=count,
        total_ps=total_ps,
        self_ps=self_ps,
        step_ps=step_ps,
        clock_ps=cores.clock_ps(),
        cores=cores,
    )


@record(frozen=True)
class ScopeTotals:
    """Self time of the ops traced under each scope: of the whole capture (ps), and of the devices' time in steps."""

    device_ps: dict[str, int]
    step_ps: dict[str, float]


def scope_totals(ops: list[OpTotal]) -> ScopeTotals:
    """The scopes of all ops; an op under nested scopes counts for each of them."""
    device: dict[str, int] = {}
    in_steps: dict[str, float] = {}
    for op in ops:
        for name in dict.fromkeys(scope_names(op.scope)):
            device[name] = device.get(name, 0) + op.self_ps
            in_steps[name] = in_steps.get(name, 0.0) + op.step_ps
    return ScopeTotals(device, in_steps)


def annotation_times(annotations: Annotations, steps: Steps) -> list[AnnotationTotal]:
    """Time on one host by annotation, from its spans; what the device did under them is not known yet."""
    totals: dict[tuple[str, str], AnnotationTotal] = {}
    durations = annotations.end - annotations.start
    held = steps.hold(annotations.start).tolist() if len(steps) else [False] * len(durations)
    for name, kind, duration, inside in zip(
        annotations.name, annotations.kind, durations.tolist(), held, strict=True
    ):
        each = totals.setdefault((name, kind), AnnotationTotal(name, kind, 0, 0, None))
        each.host_step_ps += duration if inside else 0
        each.occurrences += 1
        each.host_ps += duration
    return list(totals.values())


def annotation_totals(hosts: Iterable[list[AnnotationTotal]], scopes: ScopeTotals) -> list[AnnotationTotal]:
    """Time by annotation: what all hosts spent in it, and their devices in ops traced under that scope.

    An op under nested annotations counts for each of them, as host time does.
    """
    totals: dict[tuple[str, str], AnnotationTotal] = {}
    for own in (each for host in hosts for each in host):
        scope = _scope_of(own.name, own.kind)
        device, in_steps = scopes.device_ps.get(scope), scopes.step_ps.get(scope)
        each = totals.setdefault(
            (own.name, own.kind), AnnotationTotal(own.name, own.kind, 0, 0, device, device_step_ps=in_steps)
        )
        each.host_step_ps += own.host_step_ps
        each.occurrences += own.occurrences
        each.host_ps += own.host_ps
    return sorted(totals.values(), key=lambda each: (-(each.device_ps or 0), -each.host_ps, each.name))


def _scope_of(name: str, kind: str) -> str:
    """The scope that ops traced inside an annotation carry."""
    return name + _BACKWARD if kind == "module_backward" else name


def source_totals(ops: list[OpTotal]) -> list[tuple[str, int, int]]:
    """(source line, number of ops, device self time in ps), the most time first; ops without a line are left out."""
    totals: dict[str, tuple[int, int]] = {}
    for op in ops:
        if op.source:
            count, self_ps = totals.get(op.source, (0, 0))
            totals[op.source] = (count + 1, self_ps + op.self_ps)
    rows = [(source, count, self_ps) for source, (count, self_ps) in totals.items()]
    return sorted(rows, key=lambda row: (-row[2], row[0]))


def scope_label(scope: str) -> str:
    """The annotations around an op, outermost first, as one readable path; empty where it has none."""
    return "/".join(scope_names(scope))
