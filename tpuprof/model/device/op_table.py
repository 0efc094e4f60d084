"""Sums device time by op, and by the user's annotations. Ops are columns: here none of them becomes an object."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tpuprof.model.compile.hlo_metadata import around, names_in
from tpuprof.model.device.activity import DeviceActivity, OpNames
from tpuprof.model.device.op_facts import OpFacts, facts_of
from tpuprof.model.device.op_sums import OpSums
from tpuprof.model.host.annotations import Annotations
from tpuprof.model.intervals import Int64
from tpuprof.model.steps import Steps
from tpuprof.parallel import in_threads
from tpuprof.records import record
from tpuprof.units import PS_PER_MS

# Ops of a program up to which it may be an op that is called by itself (ops): XLA adds one for a result's layout, say.
FEW_OPS = 2
_T = TypeVar("_T")
_K = TypeVar("_K", bound=Hashable)
# Ends the scope of ops traced in a module's backward pass; tpuprof.annotate_modules writes it.
_BACKWARD = "@backward"


@record(frozen=True)
class OpTotals:
    """Ops over all their executions on all devices, one row a (program, op), the one with most self time first.

    Times are in ps. `step_ps` is an op's part of the devices' own time in steps, so that ops add up to the parts of the
    breakdown; whole picoseconds of each device, so that sums do not depend on the order of devices. `clock_ps` is time
    by the devices' own clocks, -1 where one of them states none. `fact` says which of `facts` an op has. `cores` has
    what each device says of each op, None where that is not known.
    """

    name: list[str]
    category: list[str]
    program: list[str]
    source: list[str]
    scope: list[str]
    kind: Int64
    flops: Int64
    bytes: Int64
    hbm_bytes: Int64
    facts: list[OpFacts]
    fact: Int64
    occurrences: Int64
    total_ps: Int64
    self_ps: Int64
    step_ps: Int64
    clock_ps: Int64
    cores: CoreTable | None = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.name)

    def by_fact(self, read: Callable[[OpFacts], _T]) -> list[_T]:
        """What `read` makes of the facts of each op."""
        values = [read(facts) for facts in self.facts]
        return [values[at] for at in self.fact.tolist()]

    def where(self, holds: Callable[[OpFacts], object]) -> npt.NDArray[np.bool_]:
        """Of which ops' facts that holds."""
        return np.array([bool(holds(facts)) for facts in self.facts], np.bool_)[self.fact]


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


def op_totals(hosts: list[tuple[str, list[DeviceActivity], Steps]]) -> OpTotals:
    """Every op of the devices of all hosts.

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
    order = by_self_time(whole[2], [(ops.name[at], ops.program[at]) for ops, at in first])
    cores = _cores(names, devices, sums, rows, np.argsort(order))
    occurrences, total_ps, self_ps = whole[:, order]
    return OpTotals(
        **_stated([first[row] for row in order.tolist()]),
        occurrences=occurrences,
        total_ps=total_ps,
        self_ps=self_ps,
        step_ps=in_steps[order],
        clock_ps=cores.clock_ps,
        cores=cores,
    )


def by_self_time(self_ps: Int64, names: Sequence[tuple[str, str]]) -> Int64:
    """The order in which ops are listed: by self time, the most first, then by name and program."""
    order = np.argsort(-self_ps, kind="stable")
    cuts = np.flatnonzero(np.diff(self_ps[order])) + 1
    for first, last in zip([0, *cuts.tolist()], [*cuts.tolist(), len(order)], strict=True):
        if last - first > 1:
            order[first:last] = sorted(order[first:last].tolist(), key=lambda row: names[row])
    return order


def _rows_of(
    devices: list[DeviceActivity], executions: list[Int64]
) -> tuple[list[Int64], list[tuple[OpNames, int]]]:
    """By device the row of each of its ops, one a (program, op); and of each row the first table with it, and where.

    Ops that a device did not run have row 0, and count nothing.
    """
    number: dict[tuple[str, str], int] = {}
    first: list[tuple[OpNames, int]] = []
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
                first.append((ops, at))
        found.append(row)
    return found, first


def _stated(rows: list[tuple[OpNames, int]]) -> dict[str, Any]:
    """What is stated of ops, each at its row of a table: the columns of `OpTotals` by their names."""
    tables = {id(ops): ops for ops, _ in rows}
    numbers = {key: number for number, key in enumerate(tables)}
    table, at = np.array([(numbers[id(ops)], at) for ops, at in rows], np.int64).reshape(-1, 2).T
    found: dict[OpFacts, int] = {}
    fact = []
    for ops in tables.values():
        facts, of = facts_of(ops)
        fact.append(np.array([found.setdefault(each, len(found)) for each in facts], np.int64)[of])

    def taken(columns: list[Int64]) -> Int64:
        begin = np.cumsum([0, *map(len, columns)])
        return np.concatenate([np.empty(0, np.int64), *columns])[begin[table] + at]

    def picked(columns: list[list[str]]) -> list[str]:
        return [columns[number][row] for number, row in places]

    kept, places = list(tables.values()), list(zip(table.tolist(), at.tolist(), strict=True))
    texts = ("name", "category", "program", "source", "scope")
    return {
        **{text: picked([getattr(ops, text) for ops in kept]) for text in texts},
        **{number: taken([getattr(ops, number) for ops in kept]) for number in ("kind", "flops", "bytes")},
        "hbm_bytes": taken([ops.hbm_bytes if len(ops.hbm_bytes) else ops.bytes for ops in kept]),
        "facts": list(found),
        "fact": taken(fact),
    }


class CoreTable(NamedTuple):
    """What each device says of each op, op by op: the rows of op i lie between `place[i]` and `place[i + 1]`.

    `clock_ms` is by the device's own clock, None where it states none. `clock_ps` is by op, the sum over its devices,
    -1 where one of them states none: a sum of some would be taken for that of all.
    """

    place: list[int]
    device: list[str]
    occurrences: list[int]
    total_ms: list[float]
    clock_ms: list[float | None]
    clock_ps: Int64


def _cores(
    names: list[str],
    devices: list[tuple[DeviceActivity, Steps]],
    sums: list[OpSums],
    rows: list[Int64],
    place_of: Int64,
) -> CoreTable:
    """What devices say of ops; `rows` are those of the ops of each device, `place_of` where a row is listed."""
    none = np.empty(0, np.int64)
    ran = [np.flatnonzero(found.executions > 0) for found in sums]
    clocks = [
        device.ops.clock_ps if len(device.ops.clock_ps) else np.full(len(device.ops), -1, np.int64)
        for device, _ in devices
    ]
    row = place_of[np.concatenate([none, *(own[at] for own, at in zip(rows, ran, strict=True))])]
    order = np.argsort(row, kind="stable")
    count, total, clock = (
        np.concatenate([none, *(column[at] for column, at in zip(columns, ran, strict=True))])[order]
        for columns in ([found.executions for found in sums], [found.total_ps for found in sums], clocks)
    )
    device = np.repeat(np.arange(len(devices)), [len(at) for at in ran])[order].tolist()
    place = np.searchsorted(row[order], np.arange(len(place_of) + 1))
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


def _clock_sums(clock: Int64, first: Int64) -> Int64:
    """The sum of each stretch of rows, -1 where a row of it is below zero; no stretch is empty."""
    if not len(first):
        return first
    return np.where(np.minimum.reduceat(clock, first) >= 0, np.add.reduceat(clock, first), -1)


@record(frozen=True)
class ScopeTotals:
    """Self time of the ops traced under each scope: of the whole capture (ps), and of the devices' time in steps."""

    device_ps: dict[str, int]
    step_ps: dict[str, float]


def scope_totals(ops: OpTotals) -> ScopeTotals:
    """The scopes of all ops; an op under nested scopes counts for each of them."""
    of, paths = numbered(map(around, ops.scope))
    device: dict[str, int] = {}
    in_steps: dict[str, float] = {}
    sums = (_sums(of, values, len(paths)) for values in (ops.self_ps, ops.step_ps))
    for path, self_ps, step_ps in zip(paths, *sums, strict=True):
        for name in dict.fromkeys(names_in(path)):
            device[name] = device.get(name, 0) + self_ps
            in_steps[name] = in_steps.get(name, 0.0) + step_ps
    return ScopeTotals(device, in_steps)


def _sums(of: Int64, values: Int64, count: int) -> list[int]:
    """The sum of the values of each number in `of`."""
    total = np.zeros(count, np.int64)
    np.add.at(total, of, values)
    return total.tolist()


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


def source_totals(ops: OpTotals) -> list[tuple[str, int, int]]:
    """(source line, number of ops, device self time in ps), the most time first; ops without a line are left out."""
    of, sources = numbered(ops.source)
    count = np.bincount(of, minlength=len(sources)).tolist()
    rows = zip(sources, count, _sums(of, ops.self_ps, len(sources)), strict=True)
    return sorted((row for row in rows if row[0]), key=lambda row: (-row[2], row[0]))


def numbered(values: Iterable[_K]) -> tuple[Int64, list[_K]]:
    """Which of the different values each is, and those, as they come first."""
    numbers: dict[_K, int] = {}
    of = np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)
    return of, list(numbers)
