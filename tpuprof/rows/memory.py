"""HBM of the program that takes most of it."""

from __future__ import annotations

from typing import Any

from tpuprof.model.op_table import scope_label
from tpuprof.model.run import Run
from tpuprof.report.schema import BufferRow, Memory

ASSIGNMENT = "compiler's buffer assignment"
PREDICTED = "compiler's memory report (preflight)"


def memory_section(run: Run) -> Memory:
    """The host whose program needs most; of a predicted run, what the compiler said when it compiled it."""
    predicted = _predicted(run.info)
    if predicted is not None:
        return predicted
    found = max((host.memory for host in run.hosts), key=lambda each: each.peak or 0)
    return Memory(
        peak_bytes=found.peak,
        capacity_bytes=found.capacity,
        method=ASSIGNMENT if found.peak is not None else "",
        unavailable=found.unavailable,
        by_kind=found.by_kind,
        buffers=[
            BufferRow(each.name, each.bytes, each.shape, each.kind, each.source, scope_label(each.scope))
            for each in found.buffers
        ],
        program=found.program,
        fragmented_bytes=found.holes,
    )


def _predicted(info: dict[str, Any]) -> Memory | None:
    noted = info.get("preflight")
    told = noted.get("memory") if isinstance(noted, dict) else None
    if not isinstance(told, dict) or told.get("total_bytes") is None:
        return None
    return Memory(
        peak_bytes=int(told["total_bytes"]),
        capacity_bytes=int(told["capacity_bytes"]),
        method=PREDICTED,
        unavailable="",
        by_kind={str(kind): int(size) for kind, size in told.get("kinds_bytes", {}).items()},
        buffers=[
            BufferRow(
                name=str(each["name"]),
                bytes=int(each["bytes"]),
                shape=str(each["shape"]),
                kind=str(each["kind"]),
                source=str(each["source"]),
                annotation=scope_label(str(each["op"])),
            )
            for each in told.get("largest_buffers", [])
        ],
    )
