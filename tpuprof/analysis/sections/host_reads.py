"""Reads of device values that block training threads."""

from __future__ import annotations

from tpuprof.model.host_run import HostRun
from tpuprof.report.schema import HostReadRow
from tpuprof.units import ps_to_ms


def host_read_rows(hosts: list[HostRun]) -> list[HostReadRow]:
    """Reads in steps of all hosts by call and source line, what blocked longest first."""
    totals: dict[tuple[str, str], tuple[int, int]] = {}
    steps = sum(len(host.steps) for host in hosts)
    for each in (read for host in hosts for read in host.host_reads):
        count, blocked = totals.get((each.call, each.source), (0, 0))
        totals[each.call, each.source] = (count + each.occurrences, blocked + each.blocked_ps)
    rows = [HostReadRow(*key, count, ps_to_ms(blocked) / steps) for key, (count, blocked) in totals.items()]
    return sorted(rows, key=lambda row: -row.blocked_ms_per_step)
