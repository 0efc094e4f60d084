"""What the devices did: ops, transfers, loops, memory."""

from __future__ import annotations

from typing import Any

from tpuprof.analysis.sections.compute import compute_section, host_devices, op_group_rows
from tpuprof.analysis.sections.loops import loop_rows
from tpuprof.analysis.sections.memory import memory_section
from tpuprof.analysis.sections.transfers import layer_rows, transfer_rows
from tpuprof.bounds import INCONSISTENT, is_inconsistent
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.device.op_table import (
    AnnotationTotal,
    OpTotals,
    annotation_times,
    annotation_totals,
    scope_totals,
    source_totals,
)
from tpuprof.model.host_run import HostRun
from tpuprof.model.run import Run
from tpuprof.report.memory import Memory
from tpuprof.report.op_rows import OpRows
from tpuprof.report.schema import AnnotationRow, SourceRow, TransferRow
from tpuprof.report.sections import Compute
from tpuprof.units import counted, ps_to_ms

# Ops and transfers named in a warning (names).
NAMED = 3


def device_sections(run: Run, ops: OpTotals, listed: int) -> tuple[dict[str, Any], list[str]]:
    """Fields of a Report about devices, all ops in them, and what in them cannot be true; so many ops get details."""
    hosts = run.hosts
    rows, compute = compute_section([host_devices(host) for host in hosts], ops, listed)
    collectives, offload = (transfer_rows(hosts, kind) for kind in (OpKind.COLLECTIVE, OpKind.OFFLOAD))
    memory = memory_section(run)
    sections = {
        "ops": rows,
        "op_groups": op_group_rows(rows),
        "compute": compute,
        "collectives": collectives,
        "collective_layers": layer_rows(collectives, max(len(host.steps) for host in hosts)),
        "offload": offload,
        "annotations": _annotations(hosts, ops),
        "sources": [SourceRow(source, count, ps_to_ms(ps)) for source, count, ps in source_totals(ops)],
        "loops": loop_rows(hosts),
        "memory": memory,
    }
    return sections, inconsistencies(compute, rows, [*collectives, *offload], memory)


def _annotations(hosts: list[HostRun], ops: OpTotals) -> list[AnnotationRow]:
    times = [annotation_times(host.activity.annotations, host.steps) for host in hosts]
    lanes = sum(len(host.steps) * max(len(host.devices), 1) for host in hosts)
    return annotation_rows(times, ops, sum(len(host.steps) for host in hosts), lanes)


def annotation_rows(
    hosts: list[list[AnnotationTotal]], ops: OpTotals, steps: int, lanes: int
) -> list[AnnotationRow]:
    """The annotations of all hosts; `ops`, `steps` and `lanes`, the steps of all devices, are those of all."""
    return [_annotation_row(each, steps, lanes) for each in annotation_totals(hosts, scope_totals(ops))]


def _annotation_row(each: AnnotationTotal, steps: int, lanes: int) -> AnnotationRow:
    in_steps = each.device_step_ps
    return AnnotationRow(
        each.name,
        each.kind,
        each.occurrences,
        ps_to_ms(each.host_ps),
        ps_to_ms(each.device_ps) if each.device_ps is not None else None,
        host_ms_per_step=ps_to_ms(each.host_step_ps) / steps if steps else None,
        device_ms_per_step=ps_to_ms(in_steps) / lanes if in_steps is not None and lanes else None,
    )


def inconsistencies(
    compute: Compute | None, ops: OpRows, transfers: list[TransferRow], memory: Memory
) -> list[str]:
    """One sentence per kind of number that broke its bound."""
    found = [compute.mfu_note] if compute is not None and is_inconsistent(compute.mfu_note) else []
    if is_inconsistent(memory.unavailable):
        found.append(memory.unavailable)
    doubtful = ops.where([note and is_inconsistent(note) for note in ops.column("note")])
    for what, wrong in (
        ("op", doubtful),
        ("transfer", [row for row in transfers if is_inconsistent(row.note)]),
    ):
        if wrong:
            named = "; ".join(f"{row.name}: {row.note.removeprefix(INCONSISTENT)}" for row in wrong[:NAMED])
            named += f"; and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
            found.append(f"{INCONSISTENT}figures of {counted(len(wrong), what)} are not shown ({named})")
    return found
