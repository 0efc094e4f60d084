"""The numbers of a Report that a budget can be put on, each with its unit, or the reason why it is unavailable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpuprof import parts

if TYPE_CHECKING:
    from tpuprof.report.schema import Report


@dataclass(frozen=True)
class Reading:
    """A signal's value in one report. `values` are those of single steps; `unavailable` says why there is none."""

    value: float | None
    values: list[float] = field(default_factory=list)
    unavailable: str = ""


@dataclass(frozen=True)
class Signal:
    """A number of a Report by name. `lower_is_better` says which way a baseline's tolerance goes."""

    name: str
    unit: str
    lower_is_better: bool
    meaning: str
    read: Callable[[Report], Reading]


_NO_STEPS = "the trace marks no steps; mark them with tpuprof.step, or capture with `tpuprof capture`"


def _step_time(pick: Callable[[Report], float | None]) -> Callable[[Report], Reading]:
    def read(report: Report) -> Reading:
        value = pick(report)
        walls = [step.wall_ms for step in report.steps.per_step]
        return Reading(value, walls, "" if value is not None else _NO_STEPS)

    return read


def _share(*parts: str) -> Callable[[Report], Reading]:
    def read(report: Report) -> Reading:
        if not report.breakdown:
            return Reading(None, unavailable=_NO_STEPS)
        values = [
            sum(step.breakdown_ms.get(part, 0.0) for part in parts) / step.wall_ms
            for step in report.steps.per_step
            if step.wall_ms
        ]
        total = sum(report.breakdown[part].share for part in parts if part in report.breakdown)
        return Reading(total, values)

    return read


def _part_ms(part: str) -> Callable[[Report], Reading]:
    def read(report: Report) -> Reading:
        if not report.steps.all_hosts:
            return Reading(None, unavailable=_NO_STEPS)
        values = [step.breakdown_ms.get(part, 0.0) for step in report.steps.per_step]
        found = report.breakdown.get(part)
        return Reading(found.ms_per_step if found else 0.0, values)

    return read


def _recompiles(report: Report) -> Reading:
    if not report.steps.per_step:
        return Reading(None, unavailable=_NO_STEPS)
    return Reading(float(sum(1 for row in report.compiles if row.step is not None)))


def _host_reads(report: Report) -> Reading:
    if not report.steps.all_hosts:
        return Reading(None, unavailable=_NO_STEPS)
    return Reading(sum(row.occurrences for row in report.host_reads) / report.steps.all_hosts)


def _duty_cycle(report: Report) -> Reading:
    if not report.ops:
        return Reading(None, unavailable="no device activity in the trace; capture with `tpuprof capture`")
    return _share(*parts.DEVICE_PARTS)(report)


def _mfu(report: Report) -> Reading:
    if report.compute is None:
        return Reading(None, unavailable="no device ops in the trace; capture with `tpuprof capture`")
    reason = report.compute.mfu_note or "the trace does not tell FLOPs and the device's peak (it does on TPU)"
    return Reading(report.compute.mfu, unavailable="" if report.compute.mfu is not None else reason)


def _hbm(report: Report) -> Reading:
    peak = report.memory.peak_bytes
    reason = report.memory.unavailable or "the capture does not tell the memory's peak"
    return Reading(float(peak)) if peak is not None else Reading(None, unavailable=reason)


def _hbm_share(report: Report) -> Reading:
    peak, capacity = report.memory.peak_bytes, report.memory.capacity_bytes
    if peak is None or not capacity:
        return Reading(None, unavailable=report.memory.unavailable or "the device's capacity is unknown")
    return Reading(peak / capacity)


SIGNALS: dict[str, Signal] = {
    each.name: each
    for each in (
        Signal(
            "step_time_median",
            "ms",
            True,
            "median wall time of a step",
            _step_time(lambda r: r.steps.median_ms),
        ),
        Signal("step_time_p95", "ms", True, "95th percentile of it", _step_time(lambda r: r.steps.p95_ms)),
        Signal(
            "tracing_share", "share", True, "device idle while Python builds the graph", _share(parts.TRACING)
        ),
        Signal("input_share", "share", True, "device idle waiting for input", _share(parts.INPUT_WAIT)),
        Signal(
            "device_to_host_share",
            "share",
            True,
            "device idle while a value is read back",
            _share(parts.HOST_SYNC),
        ),
        Signal(
            "exposed_collectives_share",
            "share",
            True,
            "collectives nothing hides",
            _share(parts.COLLECTIVE),
        ),
        Signal("exposed_collectives", "ms", True, "the same, per step", _part_ms(parts.COLLECTIVE)),
        Signal("exposed_offload_share", "share", True, "host offload nothing hides", _share(parts.OFFLOAD)),
        Signal(
            "recompiles", "count", True, "compiles inside the captured steps, so after warm-up", _recompiles
        ),
        Signal("host_reads_per_step", "count", True, "device-to-host reads per step", _host_reads),
        Signal("duty_cycle", "share", False, "share of step time the device is busy", _duty_cycle),
        Signal("mfu", "share", False, "FLOPs of a step over what the devices could do in it", _mfu),
        Signal("hbm_peak", "bytes", True, "HBM in use at the peak, one device", _hbm),
        Signal("hbm_peak_share", "share", True, "the same over the device's HBM", _hbm_share),
    )
}
