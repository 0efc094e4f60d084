"""Device time of ops as tables show it: per step and device where the run has steps, else of the whole capture."""

from __future__ import annotations

from tpuprof.report.schema import AnnotationRow, OpRow, Report

PER_STEP = "per step and device"
IN_ALL = "in all, over the capture and all devices"


def over(report: Report) -> str:
    """What the times of ops are over."""
    return PER_STEP if _per_step(report.ops) and not report.steps.whole_capture else IN_ALL


def op_ms(op: OpRow) -> float:
    """The time a table shows of an op (ms)."""
    return op.self_ms if op.self_ms_per_step is None else op.self_ms_per_step


def largest_first(report: Report) -> list[OpRow]:
    """The ops with most of that time first."""
    return sorted(report.ops, key=lambda op: -op_ms(op))


def annotation_ms(row: AnnotationRow) -> tuple[float, float | None]:
    """Host and device time that a table shows of an annotation (ms)."""
    if row.host_ms_per_step is None:
        return row.host_ms, row.device_ms
    return row.host_ms_per_step, row.device_ms_per_step


def _per_step(ops: list[OpRow]) -> bool:
    return any(op.self_ms_per_step is not None for op in ops)
