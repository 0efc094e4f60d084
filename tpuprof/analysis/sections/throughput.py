"""Samples per second, where the program states how many samples a step has (`tpuprof.step(i, samples=...)`)."""

from __future__ import annotations

from tpuprof.model.telemetry import Counted
from tpuprof.report.sections import Throughput
from tpuprof.units import NS_PER_S

NOT_STATED = "unavailable: the program does not state its batch; `tpuprof.step(i, samples=len(batch))` does"
PARTLY = "unavailable: not every captured step, or not every process, states its samples"
NO_TIME = "unavailable: the captured steps have no time"


def throughput_section(hosts: list[Counted]) -> Throughput:
    """Samples of all processes over the captured steps' own time; None, with the reason, where not all state them."""
    if not any(host.stated for host in hosts):
        return Throughput(None, None, NOT_STATED)
    if not all(host.stated and host.stated == host.captured for host in hosts):
        return Throughput(None, None, PARTLY)
    if not all(host.wall_ns for host in hosts):
        return Throughput(None, None, NO_TIME)
    return Throughput(
        sum(host.samples / host.captured * host.processes for host in hosts),
        sum(host.samples / (host.wall_ns / NS_PER_S) * host.processes for host in hosts),
    )
