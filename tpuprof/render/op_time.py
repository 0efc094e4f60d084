"""Device time of ops as tables show it: per step and device where the run has steps, else of the whole capture."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from tpuprof.report.op_rows import column_of
from tpuprof.report.schema import AnnotationRow, OpRow, Report

PER_STEP = "per step and device"
# PJRT_DEVICE=CPU has all devices of a process in one plane: their ops' time is that in which any of them works.
OF_ONE = "per step, the CPU's devices as one"
IN_ALL = "in all, over the capture and all devices"


def over(report: Report) -> str:
    """What the times of ops are over."""
    return per_step(report) if _per_step(report.ops) and not report.steps.whole_capture else IN_ALL


def per_step(report: Report) -> str:
    """What a time per step is of: of one device, or of all of a CPU."""
    count, hosts = (int(report.environment.get(each) or 1) for each in ("device_count", "host_count"))
    return OF_ONE if report.environment.get("device_type") == "CPU" and count > hosts else PER_STEP


def op_ms(op: OpRow) -> float:
    """The time a table shows of an op (ms)."""
    return op.self_ms if op.self_ms_per_step is None else op.self_ms_per_step


def ops_ms(report: Report) -> float:
    """The same of all ops; 1 where they took no time, for shares."""
    return sum(_all_ms(report.ops)) or 1.0


def largest_first(report: Report, most: int) -> list[OpRow]:
    """So many ops at most, those with most of that time first."""
    times = _all_ms(report.ops)
    return [report.ops[row] for row in heapq.nsmallest(most, range(len(times)), key=lambda row: -times[row])]


def _all_ms(ops: Sequence[OpRow]) -> list[float]:
    both = zip(column_of(ops, "self_ms"), column_of(ops, "self_ms_per_step"), strict=True)
    return [self_ms if per_step is None else per_step for self_ms, per_step in both]


def annotation_ms(row: AnnotationRow) -> tuple[float, float | None]:
    """Host and device time that a table shows of an annotation (ms)."""
    if row.host_ms_per_step is None:
        return row.host_ms, row.device_ms
    return row.host_ms_per_step, row.device_ms_per_step


def _per_step(ops: Sequence[OpRow]) -> bool:
    return any(ms is not None for ms in column_of(ops, "self_ms_per_step"))
