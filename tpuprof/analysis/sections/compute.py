"""Ops with their efficiency, and the compute section."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tpuprof.bounds import CLOCK_SLACK, checked
from tpuprof.chips import chip_of
from tpuprof.model.compile.hlo_metadata import scope_label
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.compute import OpCosts, flops_in_steps, op_costs, padding, summarise
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.device.op_table import OpTotals, numbered
from tpuprof.model.host_run import HostRun
from tpuprof.model.intervals import Int64, covered, intersect
from tpuprof.model.steps.phase import NOT_RECORDED
from tpuprof.records import record
from tpuprof.report.op_rows import Cores, OpRows
from tpuprof.report.sections import CategoryRow, Compute, OpGroupRow, OpsLeftOut
from tpuprof.units import PS_PER_MS, format_ms, ps_to_ms

_KIND_NAMES = {int(kind): kind.name.lower() for kind in OpKind}
# Of more ops than this a report lists those that matter (ops) ...
LISTED_FROM = 1_000
# ... which take this share of the time of all of them together.
LISTED_SHARE = 0.999


def listed_ops(ops: OpTotals, all_ops: bool) -> int:
    """How many ops a report lists."""
    if all_ops or len(ops) <= LISTED_FROM:
        return len(ops)
    until = np.cumsum(ops.self_ps)
    return max(LISTED_FROM, int(np.searchsorted(until, LISTED_SHARE * until[-1])) + 1)


def left_out(rows: OpRows, listed: int) -> OpsLeftOut:
    """What the ops that are not listed take."""
    rest = rows[listed:]
    return OpsLeftOut(len(rest), sum(rest.column("self_ms")), _per_step(rest.column("self_ms_per_step")))


@record(frozen=True)
class HostDevices:
    """What the compute section needs of one host's devices; sums over devices, times in ps.

    `sparse_ps` is SparseCore work in steps, `sparse_hidden_ps` what of it is beside the TensorCore's computing; None
    where no device states any. `running_ps` is how long programs ran, None where a trace does not say.
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
        running_ps=_running_ps(host.devices) if not _lacks_programs(host) else None,
    )


def compute_section(hosts: list[HostDevices], ops: OpTotals, listed: int) -> tuple[OpRows, Compute | None]:
    """Rows of all ops, and what they add up to; no section without devices and steps.

    Only the first ops, those that are listed, say what they are by device.
    """
    with_devices = [host for host in hosts if host.count]
    peak_flops, peak_bytes = _peaks(with_devices)
    costs = op_costs(ops, peak_flops, peak_bytes)
    lanes = sum(host.lanes for host in hosts)
    running = (
        ps_to_ms(total) if (total := _sum([host.running_ps for host in with_devices])) is not None else None
    )
    rows = OpRows(
        {**_stated(ops), **_measured(ops, costs, lanes, running), "cores": _cores(ops, listed)},
        range(len(ops)),
    )
    if not with_devices or not lanes:
        return rows, None
    flops = sum(host.flops for host in hosts)
    found = summarise(ops, flops, peak_flops, sum(host.wall_ps for host in hosts))
    total_ps = sum(ps for _, ps in found.by_category)
    of_lines = {"float32_matmul_ms_per_step": found.float32_matmul_ps, "padded_ms_per_step": found.padded_ps}
    return rows, Compute(
        mfu=found.mfu,
        mfu_note=found.mfu_note,
        peak_flops_per_s=peak_flops,
        peak_hbm_bytes_per_s=peak_bytes,
        flops_per_step=flops / lanes if flops else None,
        matmul_ms_per_step=ps_to_ms(found.matmul_ps) / lanes,
        float32_matmul_ms_per_step=ps_to_ms(found.float32_matmul_ps or 0) / lanes,
        layout_copy_ms_per_step=ps_to_ms(found.layout_copy_ps) / lanes,
        padded_ms_per_step=ps_to_ms(found.padded_ps or 0) / lanes,
        categories=_categories(found.by_category, lanes, total_ps),
        sparse_core_ms_per_step=_sparse_ms([host.sparse_ps for host in hosts], lanes),
        sparse_core_hidden_ms_per_step=_sparse_ms([host.sparse_hidden_ps for host in hosts], lanes),
        kernels=_categories(sorted(found.kernels.items(), key=lambda each: -each[1]), lanes, total_ps),
        unstated=[name for name, ps in of_lines.items() if ps is None],
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


def _lacks_programs(host: HostRun) -> bool:
    """Whether programs ran that the trace does not have: their time is unknown, that of their ops is not."""
    return any(each.name == NOT_RECORDED for each in host.steps.phases)


def _peaks(devices: list[HostDevices]) -> tuple[float | None, float | None]:
    """Peak FLOP/s and HBM bytes/s of one device: as its plane states them, else those of its generation."""
    if not devices:
        return None, None
    chip = chip_of(devices[0].type)
    flops, size = devices[0].peak_flops_per_s, devices[0].peak_hbm_bytes_per_s
    if chip is None:
        return flops, size
    return flops or chip.peak_flops_per_s, size or chip.hbm_bytes_per_s


def op_group_rows(ops: OpRows) -> list[OpGroupRow]:
    """Self time by category, by program and by annotation; of each, the largest first."""
    categories = [own or kind for own, kind in zip(ops.column("category"), ops.column("kind"), strict=True)]
    groups = {
        "category": categories,
        "program": ops.column("program"),
        "annotation": ops.column("annotation"),
    }
    self_ms, occurrences = (
        np.array(ops.column("self_ms"), np.float64),
        np.array(ops.column("occurrences"), np.int64),
    )
    per_step = ops.column("self_ms_per_step")
    in_steps = None if None in per_step else np.array(per_step, np.float64)
    found = []
    for by, values in groups.items():
        of, names = numbered(values)
        count = len(names)
        ran = np.zeros(count, np.int64)
        np.add.at(ran, of, occurrences)
        columns = np.bincount(of, minlength=count), np.bincount(of, self_ms, count), ran
        told = [None] * count if in_steps is None else np.bincount(of, in_steps, count).tolist()
        rows = zip(names, *(column.tolist() for column in columns), told, strict=True)
        found += sorted([OpGroupRow(by, *row) for row in rows], key=lambda row: -row.self_ms)
    return found


def _per_step(values: list[float | None]) -> float | None:
    """Self time of ops per step and device (ms), None where the run has no steps."""
    told = [each for each in values if each is not None]
    return sum(told) if told else None


def _categories(sums: list[tuple[str, float]], lanes: int, total: float) -> list[CategoryRow]:
    return [CategoryRow(name, ps_to_ms(ps) / lanes, ps / total if total else 0.0) for name, ps in sums]


def _stated(ops: OpTotals) -> dict[str, list[Any]]:
    """Columns of ops that their totals state, or their lines."""
    count = len(ops)
    return {
        "name": ops.name,
        "category": ops.category,
        "kind": [_KIND_NAMES[kind] for kind in ops.kind.tolist()],
        "program": ops.program,
        "occurrences": ops.occurrences.tolist(),
        "flops": [each or None for each in ops.flops.tolist()],
        "bytes": [each or None for each in ops.bytes.tolist()],
        "source": ops.source,
        "annotation": [scope_label(scope) for scope in ops.scope],
        "padding": ops.by_fact(padding),
        "matmul_type": ops.by_fact(lambda facts: facts.matmul_type),
        "kernel": ops.by_fact(lambda facts: facts.kernel),
        "layout_copy": ops.by_fact(lambda facts: facts.layout_copy),
        "upcast": ops.by_fact(lambda facts: facts.upcast),
        "looks_up": ops.by_fact(lambda facts: facts.looks_up),
        "repeated": ops.by_fact(lambda facts: facts.repeated),
        "double": ops.by_fact(lambda facts: facts.double),
        "double_from": ops.by_fact(lambda facts: facts.double_from),
        "flops_per_byte": _or_none(np.where(ops.flops != 0, _over(ops.flops, ops.hbm_bytes), np.nan)),
        "hbm_bytes": [
            moved if stated else None
            for moved, stated in zip(ops.hbm_bytes.tolist(), ops.bytes.tolist(), strict=True)
        ],
        "hosts": [None] * count,
        "host_names": [[] for _ in range(count)],
    }


def _measured(ops: OpTotals, costs: OpCosts, lanes: int, running_ms: float | None) -> dict[str, list[Any]]:
    """Columns of ops that follow from their times; programs ran for `running_ms`."""
    self_ms = (ops.self_ps / PS_PER_MS).tolist()
    clock_ms: list[float | None] = (ops.clock_ps / PS_PER_MS).tolist()
    for row in np.flatnonzero(ops.clock_ps < 0).tolist():
        clock_ms[row] = None
    notes = [""] * len(ops)
    for row, note in {**costs.notes, **_beyond(self_ms, running_ms)}.items():
        notes[row] = note
    return {
        "total_ms": (ops.total_ps / PS_PER_MS).tolist(),
        "self_ms": self_ms,
        "flops_per_s": _or_none(costs.flops_per_s),
        "bytes_per_s": _or_none(costs.bytes_per_s),
        "limit": costs.limit,
        "roofline": _or_none(costs.roofline),
        "clock_ms": clock_ms,
        "note": notes,
        "self_ms_per_step": (ops.step_ps / PS_PER_MS / lanes).tolist() if lanes else [None] * len(ops),
    }


def _beyond(self_ms: list[float], running_ms: float | None) -> dict[int, str]:
    """By row why the time of an op cannot be."""
    times = np.array(self_ms, np.float64)
    doubtful = ~(times >= 0.0) if running_ms is None else ~((times >= 0.0) & (times <= running_ms))
    found = {
        row: checked(
            self_ms[row],
            "its time",
            at_most=running_ms,
            bound="the time that programs ran",
            show=format_ms,
            slack=CLOCK_SLACK,
        ).note
        for row in np.flatnonzero(doubtful).tolist()
    }
    return {row: note for row, note in found.items() if note}


def _cores(ops: OpTotals, listed: int) -> Cores:
    table = ops.cores
    if table is None:
        return Cores((), (), 0)
    return Cores(table.place, (table.device, table.occurrences, table.total_ms, table.clock_ms), listed)


def _over(amount: Int64, other: Int64) -> npt.NDArray[np.float64]:
    """The ratio, NaN where there is nothing to divide by."""
    found = np.full(len(amount), np.nan)
    np.divide(amount, other, out=found, where=other != 0)
    return found


def _or_none(values: npt.NDArray[np.float64]) -> list[float | None]:
    """The numbers, None for those that are not known."""
    found: list[float | None] = values.tolist()
    for row in np.flatnonzero(np.isnan(values)).tolist():
        found[row] = None
    return found
