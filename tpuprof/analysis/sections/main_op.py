"""The op, or the loop, that most of the device's time is in: what a device-bound verdict names."""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof.report.op_rows import OpRows
from tpuprof.report.schema import LoopRow, OpRow
from tpuprof.units import format_share

# Share of the device's busy time in steps from which one op, or one loop, is most of it: half.
MOST_FROM_SHARE = 0.5
# Characters shown of a name: in a Chrome trace it may be a whole HLO line (characters).
LONGEST_NAME = 80


def main_op(busy_ms: float, ops: Sequence[OpRow], loops: Sequence[LoopRow]) -> str:
    """A sentence on the op that takes most of `busy_ms` (per step), else on the inmost loop that does; else empty."""
    if busy_ms <= 0:
        return ""
    times = OpRows.of(ops).column("self_ms_per_step")
    row = max(range(len(times)), key=lambda each: times[each] or 0.0, default=None)
    if row is not None and _is_most(times[row], busy_ms):
        return _said(ops[row].name, ops[row].source, times[row], busy_ms)
    most = [each for each in loops if _is_most(each.total_ms_per_step, busy_ms)]
    if not most:
        return ""
    inmost = min(most, key=lambda each: each.total_ms_per_step or 0.0)
    return _said(f"the loop {inmost.name}", inmost.source, inmost.total_ms_per_step or 0.0, busy_ms)


def _is_most(ms: float | None, busy_ms: float) -> bool:
    return ms is not None and ms >= MOST_FROM_SHARE * busy_ms


def _said(name: str, source: str, ms: float, busy_ms: float) -> str:
    at = f" at {source}" if source else ""
    share = format_share(min(ms / busy_ms, 1.0))
    return f" Most of the device's time is in {name[:LONGEST_NAME]}{at} ({share})."
