"""Ops with their efficiency, and the compute section."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof.bounds import CLOCK_SLACK, checked
from tpuprof.chips import chip_of
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.compute import OpCost, flops_in_steps, op_cost, summarise
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.device.op_table import OpTotal, scope_label
from tpuprof.model.host_run import HostRun
from tpuprof.model.intervals import covered, intersect
from tpuprof.records import record
from tpuprof.report.schema import CoreRow, OpRow
from tpuprof.report.sections import CategoryRow, Compute, OpGroupRow, OpsLeftOut
from tpuprof.units import format_ms, ps_to_ms

# Looked up once: names of members of an enumeration are slow in Python 3.11.
_KIND_NAMES = {kind: kind.name.lower() for kind in OpKind}
# Of more ops than this a report lists those that matter (ops) ...
LISTED_FROM = 1_000
# ... which take this share of the time of all of them together.
LISTED_SHARE = 0.999


def listed_ops(ops: list[OpTotal], all_ops: bool) -> int:
    """How many ops a report lists, of ops with the one that takes most self time first."""
    if all_ops or len(ops) <= LISTED_FROM:
        return len(ops)
    until = np.cumsum([op.self_ps for op in ops])
    return max(LISTED_FROM, int(np.searchsorted(until, LISTED_SHARE * until[-1])) + 1)


def left_out(rows: list[OpRow], listed: int) -> OpsLeftOut:
    """What the ops that are not listed take."""
    rest = rows[listed:]
    return OpsLeftOut(len(rest), sum(row.self_ms for row in rest), per_step(rest))


@record(frozen=True)
class HostDevices:
    """What the compute section needs of one host's devices; sums over devices, times in ps.

    `sparse_ps` is SparseCore work in steps, `sparse_hidden_ps` what of it is beside the TensorCore's computing; None
    where no device states any. `running_ps` is how long programs ran, None where a TPU does not say.
    """

    type: str
    count: int
    steps: int
    wall_ps: int
    flops: int
    peak_flops_per_s: float | None
    peak_hbm_bytes_per_s: float | None
    sparse_ps: int | None
    sparse_hidden_ps: int | None
    running_ps: int | None

    @property
    def lanes(self) -> int:
        """Steps of all devices; those of a host without one count once."""
        return self.steps * max(self.count, 1)


def host_devices(host: HostRun) -> HostDevices:
    """The devices of one host in steps."""
    first = host.devices[0] if host.devices else None
    return HostDevices(
        type=first.type if first else "",
        count=len(host.devices),
        steps=len(host.steps),
        wall_ps=int(host.steps.wall_ps.sum()) * len(host.devices),
        flops=sum(flops_in_steps(device, host.steps) for device in host.devices),
        peak_flops_per_s=first.peak_flops_per_s if first else None,
        peak_hbm_bytes_per_s=first.peak_hbm_bytes_per_s if first else None,
        sparse_ps=_sparse_ps(host, beside_compute=False),
        sparse_hidden_ps=_sparse_ps(host, beside_compute=True),
        running_ps=_running_ps(host.devices),
    )


def compute_section(
    hosts: list[HostDevices], ops: list[OpTotal], listed: int
) -> tuple[list[OpRow], Compute | None]:
    """Rows of all ops, and what they add up to; no section without devices and steps.

    Only the first ops, those that are listed, say what they are by device.
    """
    with_devices = [host for host in hosts if host.count]
    peak_flops, peak_bytes = _peaks(with_devices)
    costs = {row: op_cost(op, peak_flops, peak_bytes) for row, op in enumerate(ops)}
    lanes = sum(host.lanes for host in hosts)
    running = (
        ps_to_ms(total) if (total := _sum([host.running_ps for host in with_devices])) is not None else None
    )
    rows = [_within(_op_row(op, costs[row], lanes, row < listed), running) for row, op in enumerate(ops)]
    if not with_devices or not lanes:
        return rows, None
    flops = sum(host.flops for host in hosts)
    found = summarise(ops, costs, flops, peak_flops, sum(host.wall_ps for host in hosts))
    total_ps = sum(ps for _, ps in found.by_category)
    return rows, Compute(
        mfu=found.mfu,
        mfu_note=found.mfu_note,
        peak_flops_per_s=peak_flops,
        peak_hbm_bytes_per_s=peak_bytes,
        flops_per_step=flops / lanes if flops else None,
        matmul_ms_per_step=ps_to_ms(found.matmul_ps) / lanes,
        float32_matmul_ms_per_step=ps_to_ms(found.float32_matmul_ps) / lanes,
        layout_copy_ms_per_step=ps_to_ms(found.layout_copy_ps) / lanes,
        padded_ms_per_step=ps_to_ms(found.padded_ps) / lanes,
        categories=_categories(found.by_category, lanes, total_ps),
        sparse_core_ms_per_step=_sparse_ms([host.sparse_ps for host in hosts], lanes),
        sparse_core_hidden_ms_per_step=_sparse_ms([host.sparse_hidden_ps for host in hosts], lanes),
        kernels=_categories(sorted(found.kernels.items(), key=lambda each: -each[1]), lanes, total_ps),
    )


def _sum(values: list[int | None]) -> int | None:
    """The sum, None where there is none or one is unknown."""
    known = [each for each in values if each is not None]
    return sum(known) if known and len(known) == len(values) else None


def _sparse_ms(values: list[int | None], lanes: int) -> float | None:
    known = [each for each in values if each is not None]
    return ps_to_ms(sum(known)) / lanes if known else None


def _sparse_ps(host: HostRun, *, beside_compute: bool) -> int | None:
    """SparseCore work in steps, all of it or what is beside the TensorCore's computing."""
    total, known = 0, False
    for device in host.devices:
        spans = device.sparse_busy
        if spans is not None:
            known = True
            chosen = intersect(spans, device.by_kind[OpKind.COMPUTE]) if beside_compute else spans
            total += int(covered(chosen, host.steps.start, host.steps.end).sum())
    return total if known else None


def _running_ps(devices: list[DeviceActivity]) -> int | None:
    """How long programs ran on TPUs, summed over devices; None where a device does not say."""
    known = bool(devices) and all(each.type != "CPU" and len(each.programs.start) for each in devices)
    return int(sum(each.executing.total for each in devices)) if known else None


def _within(row: OpRow, running_ms: float | None) -> OpRow:
    """The row with a note where its time cannot be."""
    if running_ms is None and row.self_ms >= 0.0:
        return row
    found = checked(
        row.self_ms,
        "its time",
        at_most=running_ms,
        bound="the time that programs ran",
        show=format_ms,
        slack=CLOCK_SLACK,
    )
    return replace(row, note=found.note) if found.note else row


def _peaks(devices: list[HostDevices]) -> tuple[float | None, float | None]:
    """Peak FLOP/s and HBM bytes/s of one device: as its plane states them, else those of its generation."""
    if not devices:
        return None, None
    chip = chip_of(devices[0].type)
    flops, size = devices[0].peak_flops_per_s, devices[0].peak_hbm_bytes_per_s
    if chip is None:
        return flops, size
    return flops or chip.peak_flops_per_s, size or chip.hbm_bytes_per_s


def op_group_rows(ops: list[OpRow]) -> list[OpGroupRow]:
    """Self time by category, by program and by annotation; of each, the largest first."""
    found = []
    for by in ("category", "program", "annotation"):
        groups: dict[str, list[OpRow]] = {}
        for op in ops:
            groups.setdefault(_group(op, by), []).append(op)
        rows = [
            OpGroupRow(
                by,
                name,
                len(own),
                sum(op.self_ms for op in own),
                sum(op.occurrences for op in own),
                per_step(own),
            )
            for name, own in groups.items()
        ]
        found += sorted(rows, key=lambda row: -row.self_ms)
    return found


def per_step(ops: list[OpRow]) -> float | None:
    """Self time of ops per step and device (ms), None where the run has no steps."""
    told = [op.self_ms_per_step for op in ops if op.self_ms_per_step is not None]
    return sum(told) if told else None


def _group(op: OpRow, by: str) -> str:
    if by == "category":
        return op.category or op.kind
    return op.program if by == "program" else op.annotation


def _categories(sums: list[tuple[str, float]], lanes: int, total: float) -> list[CategoryRow]:
    return [CategoryRow(name, ps_to_ms(ps) / lanes, ps / total if total else 0.0) for name, ps in sums]


def _op_row(op: OpTotal, cost: OpCost, lanes: int, with_cores: bool) -> OpRow:
    return OpRow(
        name=op.name,
        category=op.category,
        kind=_KIND_NAMES[op.kind],
        program=op.program,
        occurrences=op.occurrences,
        total_ms=ps_to_ms(op.total_ps),
        self_ms=ps_to_ms(op.self_ps),
        flops=op.flops or None,
        bytes=op.bytes or None,
        source=op.source,
        annotation=scope_label(op.scope),
        flops_per_s=cost.flops_per_s,
        bytes_per_s=cost.bytes_per_s,
        limit=cost.limit,
        roofline=cost.roofline,
        padding=cost.padding,
        matmul_type=cost.matmul_type,
        kernel=cost.kernel,
        layout_copy=cost.layout_copy,
        upcast=cost.upcast,
        looks_up=cost.looks_up,
        clock_ms=ps_to_ms(op.clock_ps) if op.clock_ps is not None else None,
        self_ms_per_step=ps_to_ms(op.step_ps) / lanes if lanes else None,
        flops_per_byte=op.flops / op.hbm_bytes if op.flops and op.hbm_bytes else None,
        hbm_bytes=op.hbm_bytes if op.bytes else None,
        note=cost.note,
        cores=list(map(CoreRow, *op.cores.columns())) if op.cores and with_cores else [],
    )
