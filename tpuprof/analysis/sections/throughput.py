"""Samples per second, where the program states how many samples a step has (`tpuprof.step(i, samples=...)`)."""

from __future__ import annotations

from collections import Counter

from tpuprof.model.host_run import HostRun
from tpuprof.model.telemetry import StepRecord
from tpuprof.report.sections import Throughput
from tpuprof.units import NS_PER_S

NOT_STATED = "unavailable: the program does not state its batch; `tpuprof.step(i, samples=len(batch))` does"
PARTLY = "unavailable: not every captured step, or not every process, states its samples"
NO_TIME = "unavailable: the captured steps have no time"


def throughput_section(hosts: list[HostRun]) -> Throughput:
    """Samples of all processes over the captured steps' own time; None, with the reason, where not all state them."""
    captured = [[record for record in host.records if record.captured] for host in hosts]
    stated = [record.samples is not None for rows in captured for record in rows]
    if not any(stated):
        return Throughput(None, None, NOT_STATED)
    if not all(stated) or not all(captured):
        return Throughput(None, None, PARTLY)
    if not all(sum(record.wall_ns for record in rows) for rows in captured):
        return Throughput(None, None, NO_TIME)
    per_step = per_second = 0.0
    for rows in captured:
        samples, processes = sum(record.samples or 0.0 for record in rows), _processes(rows)
        per_step += samples / len(rows) * processes
        per_second += samples / (sum(record.wall_ns for record in rows) / NS_PER_S) * processes
    return Throughput(per_step, per_second)


def _processes(rows: list[StepRecord]) -> int:
    """How many processes of one host noted these steps: each notes a step once."""
    return max(Counter(record.step for record in rows).values())
