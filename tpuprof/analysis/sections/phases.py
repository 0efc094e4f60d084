"""Stretches that are not training, and threads that gave the device work, as rows of the Report."""

from __future__ import annotations

from tpuprof.model.host_run import HostRun
from tpuprof.report.sections import PhaseRow, ThreadRow
from tpuprof.units import PS_PER_NS, ps_to_ms


def phase_rows(hosts: list[HostRun]) -> list[PhaseRow]:
    """Every phase of every host, in time order by host."""
    return [
        PhaseRow(
            name=each.name,
            host=host.name,
            start_ns=each.start // PS_PER_NS,
            duration_ms=ps_to_ms(each.end - each.start),
            cuts=each.cuts,
            evidence=each.evidence,
            step=each.step,
            inside=each.inside,
        )
        for host in hosts
        for each in host.steps.phases
    ]


def thread_rows(hosts: list[HostRun]) -> list[ThreadRow]:
    """Every thread that handed programs over, by host, the followed one first."""
    return [
        ThreadRow(each.name, host.name, each.programs, each.share, each.followed, each.why)
        for host in hosts
        for each in host.threads
    ]
