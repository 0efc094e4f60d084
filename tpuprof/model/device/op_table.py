"""Sums device time by op, and by the user's annotations."""

from __future__ import annotations

from dataclasses import field
from typing import Any, NamedTuple

from tpuprof.model.compile.hlo_metadata import scope_names
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.host.activity import Annotations
from tpuprof.model.steps import Steps
from tpuprof.parallel import in_threads
from tpuprof.records import record

# Ends the scope of ops traced in a module's backward pass; tpuprof.annotate_modules writes it.
_BACKWARD = "@backward"


class CoreTotal(NamedTuple):
    """One op on one device: `clock_ps` is by the device's own clock, None where it states none."""

    device: str
    occurrences: int
    total_ps: int
    clock_ps: int | None


@record
class OpTotal:
    """One op of one program over all its executions on all devices; times in ps.

    `step_ps` is its part of the devices' own time in steps, so that ops add up to the parts of the breakdown.
    """

    name: str
    long_name: str
    category: str
    kind: OpKind
    module: str
    source: str
    scope: str
    flops: int
    bytes: int
    hbm_bytes: int = 0
    occurrences: int = 0
    total_ps: int = 0
    self_ps: int = 0
    step_ps: float = 0.0
    cores: list[CoreTotal] = field(default_factory=list)


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


def op_totals(hosts: list[tuple[list[DeviceActivity], Steps]]) -> list[OpTotal]:
    """Every op of the devices of all hosts, the one with most self time first; each host's steps beside its devices."""
    devices = [(device, steps) for of_host, steps in hosts for device in of_host]
    totals: dict[tuple[str, str], OpTotal] = {}
    sums = in_threads(lambda each: each[0].sums(each[1].spans), devices)
    for (device, steps), found in zip(devices, sums, strict=True):
        in_steps = found.self_ps_in_steps * device.wall_factor(steps.spans)[device.ops.kind]
        columns = found.executions, found.total_ps, found.self_ps, in_steps
        _add_device(device, tuple(column.tolist() for column in columns), totals)
    return sorted(totals.values(), key=lambda op: (-op.self_ps, op.name))


def _add_device(
    device: DeviceActivity, sums: tuple[list[Any], ...], totals: dict[tuple[str, str], OpTotal]
) -> None:
    ops = device.ops
    kind, flops, size = ops.kind.tolist(), ops.flops.tolist(), ops.bytes.tolist()
    in_hbm = ops.hbm_bytes.tolist() or size
    clock = ops.clock_ps.tolist() or [-1] * len(ops)
    for row, (count, total_ps, self_ps, step_ps) in enumerate(zip(*sums, strict=True)):
        if not count:
            continue
        key = (ops.module[row], ops.name[row])
        each = totals.get(key)
        if each is None:
            each = totals[key] = OpTotal(
                name=ops.name[row],
                long_name=ops.long_name[row],
                category=ops.category[row],
                kind=OpKind(kind[row]),
                module=ops.module[row],
                source=ops.source[row],
                scope=ops.scope[row],
                flops=flops[row],
                bytes=size[row],
                hbm_bytes=in_hbm[row],
            )
        each.occurrences += count
        each.total_ps += total_ps
        each.cores.append(CoreTotal(device.name, count, total_ps, clock[row] if clock[row] >= 0 else None))
        each.self_ps += self_ps
        each.step_ps += step_ps


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


def annotation_totals(annotations: Annotations, scopes: ScopeTotals, steps: Steps) -> list[AnnotationTotal]:
    """Time by annotation name: on the host from its spans, on the device from ops traced under that scope.

    An op under nested annotations counts for each of them, as host time does.
    """
    device, in_steps = scopes.device_ps, scopes.step_ps
    totals: dict[tuple[str, str], AnnotationTotal] = {}
    durations = annotations.end - annotations.start
    held = steps.hold(annotations.start).tolist() if len(steps) else [False] * len(durations)
    for name, mark, duration, inside in zip(
        annotations.name, annotations.mark, durations.tolist(), held, strict=True
    ):
        scope = _scope_of(name, mark)
        each = totals.setdefault(
            (name, mark),
            AnnotationTotal(name, mark, 0, 0, device.get(scope), device_step_ps=in_steps.get(scope)),
        )
        each.host_step_ps += duration if inside else 0
        each.occurrences += 1
        each.host_ps += duration
    return sorted(totals.values(), key=lambda each: (-(each.device_ps or 0), -each.host_ps, each.name))


def _scope_of(name: str, mark: str) -> str:
    """The scope that ops traced inside an annotation carry."""
    return name + _BACKWARD if mark == "module_backward" else name


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
