"""What went from slice to slice, by collective and pair of slices."""

from __future__ import annotations

from tpuprof.model.host.slice_messages import SliceMessages, summed
from tpuprof.model.host_run import HostRun
from tpuprof.report.sections import SliceMessageRow
from tpuprof.units import GIGA, US_PER_MS, US_PER_S

# Rows listed, those with most time (rows): a program of 100 collectives on 16 slices has 24,000.
ROWS_LISTED = 1_000


def slice_message_rows(hosts: list[HostRun]) -> list[SliceMessageRow]:
    """Messages between slices, over all hosts, those that were on their way longest in all first."""
    steps = max((len(host.steps) for host in hosts), default=0)
    if not steps:
        return []
    found = summed(each for host in hosts for each in host.slice_messages)
    return [_row(each, steps) for each in sorted(found, key=lambda each: -each.total_us)[:ROWS_LISTED]]


def _row(each: SliceMessages, steps: int) -> SliceMessageRow:
    return SliceMessageRow(
        collective=each.collective,
        from_slice=each.source,
        to_slice=each.target,
        messages_per_step=each.count / steps,
        bytes_per_step=each.bytes / steps,
        mean_ms=each.total_us / each.timed / US_PER_MS if each.timed else None,
        longest_ms=each.longest_us / US_PER_MS if each.timed else None,
        gb_per_s=each.timed_bytes * US_PER_S / each.total_us / GIGA if each.total_us else None,
        untimed=each.count - each.timed,
    )
