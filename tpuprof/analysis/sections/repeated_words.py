"""What a verdict of a busy device adds where each of several devices computes the same."""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof.report.op_rows import OpRows
from tpuprof.report.schema import OpRow
from tpuprof.units import format_share

# Share of a device's time that is for nothing from which the verdict says so: a quarter, as of gradients without a use.
REPEATED_FROM_SHARE = 0.25


def said_of_repeated(ops: Sequence[OpRow]) -> str:
    """In how much of its time each device computes what the others do; empty where that is little, or unknown."""
    rows = OpRows.of(ops)
    compute = rows.where([kind == "compute" for kind in rows.column("kind")])
    same = compute.where([bool(devices) for devices in compute.column("repeated")])
    total = compute.ms_per_step()
    if not len(same) or not total:
        return ""
    devices = max(same.column("repeated"))
    share = min(same.ms_per_step() / total, 1.0)
    if share * (1 - 1 / devices) < REPEATED_FROM_SHARE:
        return ""
    return f" Each of {devices} devices computes the same in ops that take {format_share(share)} of its time."
