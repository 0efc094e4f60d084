"""What a verdict of a busy device adds where much of what it computes is for nothing."""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof.model.run import Run
from tpuprof.report.op_rows import OpRows
from tpuprof.report.schema import OpRow
from tpuprof.signals.device import rows_of_unused
from tpuprof.units import format_share, text_range

# Share of the device's time from which gradients without a use are part of the verdict: a quarter, as of what dispatch
# is made of.
UNUSED_FROM_SHARE = 0.25


def said_of_unused(run: Run, ops: Sequence[OpRow]) -> str:
    """How much of what the device computes are gradients that no optimizer uses; empty where few are."""
    work = next((host.unused for host in run.hosts if host.unused is not None), None)
    if work is None or not work.multiplies or not work.found:
        return ""
    rows = OpRows.of(ops)
    total = rows.where([kind == "compute" for kind in rows.column("kind")]).ms_per_step() or 1.0
    least, most = (each.ms_per_step() / total for each in rows_of_unused(rows, work))
    if most < UNUSED_FROM_SHARE:
        return ""
    shares = text_range(format_share(least), format_share(min(most, 1.0)))
    return f" {shares} of the device's time computes gradients that no optimizer uses."
