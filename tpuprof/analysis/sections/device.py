"""What the devices did: ops, transfers, loops, memory."""

from __future__ import annotations

from typing import Any

from tpuprof.analysis.sections.annotations import annotation_rows
from tpuprof.analysis.sections.compute import compute_section, host_devices, op_group_rows
from tpuprof.analysis.sections.inconsistent import inconsistencies
from tpuprof.analysis.sections.loops import loop_rows
from tpuprof.analysis.sections.memory import memory_section
from tpuprof.analysis.sections.transfers import layer_rows, transfer_rows
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.device.op_table import OpTotal, source_totals
from tpuprof.model.run import Run
from tpuprof.report.schema import SourceRow
from tpuprof.units import ps_to_ms


def device_sections(run: Run, ops: list[OpTotal], listed: int) -> tuple[dict[str, Any], list[str]]:
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
        "annotations": annotation_rows(hosts, ops),
        "sources": [SourceRow(source, count, ps_to_ms(ps)) for source, count, ps in source_totals(ops)],
        "loops": loop_rows(hosts),
        "memory": memory,
    }
    return sections, inconsistencies(compute, rows, [*collectives, *offload], memory)
