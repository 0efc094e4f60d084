"""Tracing and input, as means over the steps of all hosts."""

from __future__ import annotations

from dataclasses import replace

from tpuprof import parts as part
from tpuprof.model.host.input_pipeline import WORKERS
from tpuprof.model.host.tracing import TracingShare
from tpuprof.model.host_run import HostRun
from tpuprof.report.sections import HostStackRow, InputRow, Tracing, TracingRow
from tpuprof.units import PS_PER_MS

# What a stack has that waits for worker processes of torch's DataLoader.
_OF_WORKERS = "_try_get_data"
# Functions of its file in which it starts worker processes, and ends them. With `persistent_workers` it does so once.
_LOADERS, _RESTARTS = "torch/utils/data/dataloader.py:", ("_get_iterator (", "_shutdown_workers (")
# Share of the waits for input from which these are their cause (share). The wait for the first batch of new workers
# comes on top, and looks like any other. A judgement: a quarter.
RESTARTS_FROM_SHARE = 0.25


def tracing_section(hosts: list[HostRun]) -> Tracing:
    """Phases and annotations of tracing per step, and the step without any."""
    # A host whose only window was its whole capture has no steps beside others that have: its tracing is in none.
    hosts = [host for host in hosts if len(host.steps)]
    steps = sum(len(host.steps) for host in hosts)
    if not steps:
        return Tracing()
    wall = sum(int(host.steps.wall_ps.sum()) for host in hosts) / steps / PS_PER_MS
    exposed = sum(host.tracing.exposed_ps for host in hosts) / steps / PS_PER_MS
    retraces = [host.tracing.scan_retraces for host in hosts if host.tracing.scan_retraces is not None]
    return Tracing(
        phases=_rows([each for host in hosts for each in host.tracing.phases], steps),
        annotations=_rows([each for host in hosts for each in host.tracing.annotations], steps),
        scan_retraces_per_step=sum(retraces) / steps if retraces else None,
        step_ms_if_free=wall - exposed,
    )


def _rows(shares: list[TracingShare], steps: int) -> list[TracingRow]:
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for each in shares:
        exposed, hidden = sums.get((each.name, each.kind), (0, 0))
        sums[each.name, each.kind] = (exposed + each.exposed_ps, hidden + each.hidden_ps)
    rows = [
        TracingRow(name, kind, exposed / steps / PS_PER_MS, hidden / steps / PS_PER_MS)
        for (name, kind), (exposed, hidden) in sums.items()
    ]
    return sorted(rows, key=lambda row: -(row.exposed_ms_per_step + row.hidden_ms_per_step))


def input_rows(hosts: list[HostRun], stacks: list[HostStackRow]) -> list[InputRow]:
    """The input pipeline of each host that shows one.

    Worker processes are in no trace. The loader's events tell of them, or samples of the training thread do.
    """
    rows = [_input_row(host) for host in hosts if host.input is not None and len(host.steps)]
    waits = [row for row in stacks if row.part == part.INPUT_WAIT]
    if not any(_OF_WORKERS in frame for row in waits for frame in row.frames):
        return rows
    diagnosis = "restarted_workers" if _restart(waits) else "slow_workers"
    return [
        replace(row, prefetch=WORKERS, batch_ms=None, diagnosis=diagnosis)
        if row.diagnosis in ("no_prefetch", "slow_workers")
        else row
        for row in rows
    ]


def _restart(waits: list[HostStackRow]) -> bool:
    """Whether much of what training waits for is that worker processes end, and others start: in each epoch."""
    whole = sum(row.exposed_ms_per_step for row in waits)
    restarts = sum(row.exposed_ms_per_step for row in waits if any(map(_restarts, row.frames)))
    return restarts > 0 and restarts >= RESTARTS_FROM_SHARE * whole


def _restarts(frame: str) -> bool:
    return frame.startswith(_RESTARTS) and _LOADERS in frame


def _input_row(host: HostRun) -> InputRow:
    found, scale = host.input, len(host.steps) * PS_PER_MS
    assert found is not None
    return InputRow(
        host=host.name,
        prefetch=found.prefetch,
        batches_per_step=found.batches / len(host.steps),
        batch_ms=found.batch_ps / PS_PER_MS if found.batch_ps is not None else None,
        wait_ms_per_step=found.wait_ps / scale,
        exposed_ms_per_step=found.exposed_ps / scale,
        host_to_device_ms_per_step=found.host_to_device_ps / scale,
        diagnosis=found.diagnosis,
    )
