"""The steps of a run: how long each took, the mean step and its split, the slowest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from tpuprof.analysis.sections.steadiness import steadiness_section
from tpuprof.model.busy_machine import cpu_wait, waits_of_each
from tpuprof.model.device.cpu import Queue
from tpuprof.model.host.unfinished_work import waited_at_once
from tpuprof.model.host_run import HostRun
from tpuprof.model.intervals import Int64
from tpuprof.model.median import median, percentile_95
from tpuprof.model.read_graphs import again_by_step
from tpuprof.model.step_columns import SLOWEST, listed
from tpuprof.model.step_times import StepTimes
from tpuprof.model.steps.few import is_whole_capture
from tpuprof.model.verdict import bound_of
from tpuprof.parts import ATEN_FALLBACK, DEVICE_PARTS, NAMES
from tpuprof.report.schema import CompileRow, HostReadRow, Part, StepRow, StepSummary
from tpuprof.report.sections import RunSummary
from tpuprof.units import MS_PER_S, PS_PER_MS, PS_PER_NS, ps_to_ms


def step_sections(hosts: list[HostRun], times: StepTimes, hidden: float) -> dict[str, Any]:
    """Fields of a Report about steps; `times` are of the mean step, `hidden` is its hidden tracing (ms)."""
    return {
        "steps": step_summary(hosts),
        "breakdown": {name: Part(ms, ms / times.wall) for name, ms in times.parts.items()}
        if times.wall
        else {},
        "tracing_hidden_ms_per_step": hidden if times.wall else None,
        "host_reads": host_read_rows(hosts),
        "steadiness": steadiness_section(hosts),
    }


def mean_step(
    hosts: list[HostRun], native_seconds: float | None = None, info: dict[str, Any] | None = None
) -> tuple[StepTimes, float]:
    """The mean step of all hosts, and the tracing hidden in it (ms).

    `native_seconds` is how long a device that the trace does not show worked at most in all steps, None where unknown.
    `info` is what the capture of one host noted: how long its threads waited for a CPU.
    """
    count = sum(len(host.steps) for host in hosts)
    if not count:
        return StepTimes(0.0, {}, 0.0, 0.0, 0.0), 0.0

    def mean(columns: Iterable[Int64]) -> float:
        return sum(int(column.sum()) for column in columns) / count / PS_PER_MS

    names = list(dict.fromkeys([*NAMES, *(name for host in hosts for name in host.breakdown.parts)]))
    parts = {
        name: mean(h.breakdown.parts[name] for h in hosts if name in h.breakdown.parts) for name in names
    }
    reads = [read for host in hosts for read in host.host_reads]
    behind = [host.queue for host in hosts if host.queue.grows]
    of_host, of_others = waits_of_each(info or {}, hosts[0].activity.samples)
    on_cpu = any(device.type == "CPU" for host in hosts for device in host.devices)
    times = StepTimes(
        wall=mean(host.steps.wall_ps for host in hosts),
        parts=parts,
        busy=mean(host.breakdown.busy for host in hosts),
        host_work=mean(host.breakdown.host_work for host in hosts),
        reads_share=sum(int((host.breakdown.host_reads > 0).sum()) for host in hosts) / count,
        waited=mean(host.breakdown.waited for host in hosts),
        seen=any(host.devices for host in hosts),
        behind=_together(behind),
        blocked=sum(each.blocked_ps for each in reads) / count / PS_PER_MS if reads else None,
        again=mean(again_by_step(host.read_graphs, len(host.steps)) for host in hosts),
        again_for_ops=mean(again_by_step(host.fallback_graphs, len(host.steps)) for host in hosts),
        unfinished=mean(host.breakdown.unfinished for host in hosts),
        feeding=mean(host.breakdown.feeding for host in hosts),
        reads=sum(each.occurrences for each in reads) / count,
        at_most=native_seconds * MS_PER_S / count if native_seconds is not None and len(hosts) == 1 else None,
        cpu_wait=cpu_wait(info or {}) or 0.0,
        host_wait=of_host,
        device_wait=of_others if on_cpu else 0.0,
        on_cpu=on_cpu,
        for_reads=mean(host.breakdown.for_reads for host in hosts),
        ready=mean(host.breakdown.ready for host in hosts),
        turns=mean(_lost_in_turns(host) for host in hosts) if reads else None,
        at_once=max(
            ps_to_ms(waited_at_once(host.breakdown.unfinished, host.breakdown.feeding, host.steps.wall_ps))
            for host in hosts
        ),
        fallbacks_share=sum(int((h.breakdown.parts[ATEN_FALLBACK] > 0).sum()) for h in hosts) / count,
    )
    return times, mean(host.breakdown.tracing_hidden for host in hosts)


def _lost_in_turns(host: HostRun) -> Int64:
    from tpuprof.model.lost_in_turns import lost_in_turns  # a plain analysis has no use for it

    split = host.breakdown
    return lost_in_turns(host.steps.wall_ps, split.busy, split.host_work + split.ready)


def _together(behind: list[Queue]) -> Queue | None:
    """The queues of all hosts whose devices are behind; None where none is."""
    if not behind:
        return None
    return Queue(
        sum(each.handed_over for each in behind),
        sum(each.ran for each in behind),
        feeding=max(each.feeding for each in behind),
        seen=any(each.seen for each in behind),
    )


def step_summary(hosts: list[HostRun]) -> StepSummary:
    """The steps of all hosts: how many, how long, and the rows that are listed."""
    first = max(hosts, key=lambda host: len(host.steps))
    walls = np.concatenate([host.steps.wall_ps for host in hosts]) / PS_PER_MS
    rows = [row for host in hosts for row in _step_rows(host, listed(len(host.steps), len(hosts)))]
    missing = len(walls) - len(rows)
    whole = is_whole_capture(first.steps)
    told = len(walls) > 0 and not whole
    return StepSummary(
        count=0 if whole else len(first.steps),
        method=first.steps.method,
        confidence=first.steps.confidence,
        median_ms=median(walls) if told else None,
        p95_ms=percentile_95(walls) if told else None,
        note=first.steps.note,
        per_step=rows,
        whole_capture=whole,
        left_out=missing,
        slowest=_slowest(hosts) if missing else [],
    )


def _slowest(hosts: list[HostRun]) -> list[StepRow]:
    """The slowest steps of all hosts, the slowest first."""
    rows = [
        row
        for host in hosts
        for row in _step_rows(host, np.argsort(-host.steps.wall_ps, kind="stable")[:SLOWEST])
    ]
    return sorted(rows, key=lambda row: -row.wall_ms)[:SLOWEST]


def _step_rows(host: HostRun, chosen: Int64) -> list[StepRow]:
    """Rows of those steps."""
    steps, split = host.steps, host.breakdown
    wall, start = steps.wall_ps[chosen].tolist(), (steps.start[chosen] // PS_PER_NS).tolist()
    parts = {name: column[chosen].tolist() for name, column in split.parts.items() if column.any()}
    again, for_ops = (again_by_step(each, len(steps)) for each in (host.read_graphs, host.fallback_graphs))
    rows = []
    for row, at in enumerate(chosen.tolist()):
        breakdown = {name: ps_to_ms(column[row]) for name, column in parts.items() if column[row]}
        times = StepTimes(
            wall=ps_to_ms(wall[row]),
            parts=breakdown,
            busy=ps_to_ms(int(split.busy[at])),
            host_work=ps_to_ms(int(split.host_work[at])),
            reads_share=1.0 if split.host_reads[at] else 0.0,
            waited=ps_to_ms(int(split.waited[at])),
            seen=bool(host.devices),
            behind=host.queue if host.queue.grows else None,
            blocked=ps_to_ms(int(split.blocked[at])) if host.host_reads else None,
            again=ps_to_ms(int(again[at])),
            again_for_ops=ps_to_ms(int(for_ops[at])),
            unfinished=ps_to_ms(int(split.unfinished[at])),
            feeding=ps_to_ms(int(split.feeding[at])),
            for_reads=ps_to_ms(int(split.for_reads[at])),
            ready=ps_to_ms(int(split.ready[at])),
            fallbacks_share=float(ATEN_FALLBACK in breakdown),
        )
        rows.append(
            StepRow(
                index=int(steps.number[at]),
                host=host.name,
                start_ns=start[row],
                wall_ms=times.wall,
                breakdown_ms=breakdown,
                tracing_hidden_ms=ps_to_ms(int(split.tracing_hidden[at])),
                bound=bound_of(times).word,
            )
        )
    return rows


def host_read_rows(hosts: list[HostRun]) -> list[HostReadRow]:
    """Reads in steps of all hosts by call and source line, what blocked longest first."""
    totals: dict[tuple[str, str], tuple[int, int]] = {}
    inside: dict[tuple[str, str], dict[str, int] | None] = {}
    steps = sum(len(host.steps) for host in hosts)
    for each in (read for host in hosts for read in host.host_reads):
        key = each.call, each.source
        count, blocked = totals.get(key, (0, 0))
        totals[key] = (count + each.occurrences, blocked + each.blocked_ps)
        known = inside.get(key)
        inside[key] = known if each.inside is None else dict(Counter(known) + Counter(each.inside))
    rows = [
        HostReadRow(*key, count, ps_to_ms(blocked) / steps, inside[key])
        for key, (count, blocked) in totals.items()
    ]
    return sorted(rows, key=lambda row: -row.blocked_ms_per_step)


def run_summary(hosts: list[HostRun], times: StepTimes, compiles: list[CompileRow]) -> RunSummary:
    """Duty cycle of the devices and the mean step of all hosts (`times`), and the time of all compiles (ms)."""
    busy = None
    stepping = any(len(host.steps) and not is_whole_capture(host.steps) for host in hosts)
    if times.wall and any(host.devices for host in hosts):
        busy = sum(times.parts.get(name, 0.0) for name in DEVICE_PARTS) / times.wall
    return RunSummary(
        device_busy_share=busy,
        mean_step_ms=(times.wall or None) if stepping else None,
        compile_ms=sum((each.duration_ms for each in compiles), 0.0),
    )
