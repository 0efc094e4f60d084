"""Steps that stand out, drift, and what capturing did to the steps."""

from __future__ import annotations

from tpuprof.model.host_run import HostRun
from tpuprof.model.run_ahead import run_ahead
from tpuprof.model.steadiness import Outlier, find_drift, find_outliers, profiler_effect
from tpuprof.model.telemetry import StepRecord
from tpuprof.report.sections import OutlierRow, Steadiness
from tpuprof.units import PS_PER_NS, ps_to_ms


def steadiness_section(hosts: list[HostRun]) -> Steadiness:
    """Outliers of all hosts, longest first; drift and the profiler's effect of the host with most steps."""
    ahead = [run_ahead(host.steps, host.devices, host.activity.dispatching) for host in hosts]
    found = [
        (host, *find_outliers(host.steps.wall_ps, host.breakdown.parts, each.earlier_ps if each else None))
        for host, each in zip(hosts, ahead, strict=True)
    ]
    outliers = [row for host, each, _ in found for row in _outliers(host, each)]
    first, queue = max(zip(hosts, ahead, strict=True), key=lambda each: len(each[0].steps))
    # A host that gets ahead has short steps first, and long ones once it has to wait: its device may be as fast.
    drift = find_drift(first.steps.wall_ps) if queue is None or not queue.varies else None
    captured, free = _steady_walls(first.records)
    return Steadiness(
        outliers=sorted(outliers, key=lambda row: -row.excess_ms),
        outliers_left_out=sum(count for _, _, count in found) - len(outliers),
        drift_ms=ps_to_ms(drift.change_ps) if drift else None,
        drift_p_value=drift.p_value if drift else None,
        profiler_ratio=profiler_effect(captured, free),
    )


def _outliers(host: HostRun, found: list[Outlier]) -> list[OutlierRow]:
    steps = host.steps
    return [
        OutlierRow(
            step=int(steps.number[each.row]),
            host=host.name,
            start_ns=int(steps.start[each.row]) // PS_PER_NS,
            wall_ms=ps_to_ms(int(steps.wall_ps[each.row])),
            excess_ms=ps_to_ms(each.excess_ps),
            reasons={name: ps_to_ms(ps) for name, ps in each.reasons},
            earlier_ms=ps_to_ms(each.earlier_ps),
        )
        for each in found
    ]


def _steady_walls(telemetry: list[StepRecord]) -> tuple[list[int], list[int]]:
    """Wall times in ns of captured steps, and of steps before them that compiled nothing."""
    steady = [each for each in telemetry if each.is_step and not each.compiles]
    return (
        [each.wall_ns for each in steady if each.captured],
        [each.wall_ns for each in steady if not each.captured],
    )
