"""Tables of hosts and their steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.model.steps.few import is_whole_capture
from tpuprof.tables.columns import arrow_table, joined, rows_table

if TYPE_CHECKING:
    from tpuprof.tables.source import Source


def hosts(source: Source) -> Any:
    """One row per host."""
    files = source.run.files
    return rows_table(
        "hosts",
        [
            (
                host.name,
                str(files[host.name]),
                host.size,
                host.origin_ns,
                host.framework,
                sum(device.count for device in host.devices),
                0 if is_whole_capture(host.steps) else len(host.steps),
                host.steps.method,
                host.steps.confidence,
            )
            for host in source.run.hosts
        ],
    )


def steps(source: Source) -> Any:
    """One row per step and host."""
    return joined(
        "steps",
        [
            arrow_table(
                "steps",
                {
                    "host": host.name,
                    "step": host.steps.number,
                    "start_ps": host.steps.start,
                    "duration_ps": host.steps.wall_ps,
                    "busy_ps": host.breakdown.busy,
                    "host_work_ps": host.breakdown.host_work,
                    "device_wait_ps": host.breakdown.waited,
                    "tracing_hidden_ps": host.breakdown.tracing_hidden,
                    "host_reads_count": host.breakdown.host_reads,
                },
            )
            for host in source.run.hosts
        ],
    )


def parts(source: Source) -> Any:
    """One row per part of a step that takes any time."""
    tables = []
    for host in source.run.hosts:
        for name, column in host.breakdown.parts.items():
            chosen = np.flatnonzero(column)
            columns = {"step": host.steps.number[chosen], "duration_ps": column[chosen]}
            tables.append(arrow_table("parts", {"host": host.name, "part": name, **columns}))
    return joined("parts", tables)


def telemetry(source: Source) -> Any:
    """One row per step that a process noted."""
    return rows_table(
        "telemetry",
        [
            (
                host.name,
                each.step,
                each.captured,
                each.wall_ns,
                each.compiles,
                each.compile_seconds,
                each.samples,
            )
            for host in source.run.hosts
            for each in host.records
        ],
    )


def counters(source: Source) -> Any:
    """One row per counter or metric that increased in a step."""
    return rows_table(
        "counters",
        [
            (host.name, each.step, each.captured, kind, name, value)
            for host in source.run.hosts
            for each in host.records
            for kind, values in (("counter", each.counters), ("metric", each.metrics))
            for name, value in values.items()
        ],
    )
