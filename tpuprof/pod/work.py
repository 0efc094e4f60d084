"""What the devices of all hosts did: ops, compute, memory and transfers, as in the report of all files together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tpuprof.analysis.sections.compute import compute_section, left_out, listed_ops, op_group_rows
from tpuprof.analysis.sections.transfers import layer_rows
from tpuprof.model.device.op_table import OpTotals, source_totals
from tpuprof.pod.ops import merge_ops
from tpuprof.pod.summary import TRANSFERS, HostSummary
from tpuprof.records import record
from tpuprof.report.load import report_from
from tpuprof.report.memory import AllocatorRow, Memory
from tpuprof.report.schema import Report, SourceRow, TransferRow
from tpuprof.units import ps_to_ms

# Devices listed with what their allocator held (rows), those that held most.
ALLOCATORS_LISTED = 1_000


@record(frozen=True)
class MergedWork:
    """The sections of a Report, by name, and all ops."""

    sections: dict[str, Any]
    totals: OpTotals


def merged_work(found: list[HostSummary], allocators: list[list[AllocatorRow]]) -> MergedWork:
    """What the devices did, from hosts in the order of their names."""
    merged = merge_ops([(each.name, each.ops) for each in found])
    listed = listed_ops(merged.totals, all_ops=False)
    rows, compute = compute_section([each.work for each in found], merged.totals, listed)
    sources = [SourceRow(source, count, ps_to_ms(ps)) for source, count, ps in source_totals(merged.totals)]
    collectives, offload = (_transfers(found, kind) for kind in TRANSFERS)
    sections = {
        "ops": list(
            rows[:listed].with_columns(hosts=merged.hosts[:listed], host_names=merged.names[:listed])
        ),
        "ops_left_out": left_out(rows, listed),
        "op_groups": op_group_rows(rows),
        "sources": sources,
        "compute": compute,
        "collectives": collectives,
        "offload": offload,
        "collective_layers": layer_rows(collectives, max(len(each.steps) for each in found)),
        "memory": _memory(found, allocators),
    }
    return MergedWork(sections, merged.totals)


def _transfers(found: list[HostSummary], kind: str) -> list[TransferRow]:
    """Those of the host that tells most of them."""
    with_any = [each for each in found if each.spans[kind] is not None]
    if not with_any:
        return []
    host = max(with_any, key=lambda each: each.spans[kind] or 0)
    rows: list[TransferRow] = getattr(_own(host), kind)
    return [replace(row, host=host.name if len(found) > 1 else "") for row in rows]


def _memory(found: list[HostSummary], allocators: list[list[AllocatorRow]]) -> Memory:
    """That of the host whose program needs most."""
    host = max(found, key=lambda each: each.memory_peak or 0)
    name = host.name if len(found) > 1 and host.memory_peak is not None else ""
    rows = [row for each in allocators for row in each]
    if len(rows) > ALLOCATORS_LISTED:
        rows = sorted(rows, key=lambda row: (-(row.most_bytes or 0), row.host, row.device))[
            :ALLOCATORS_LISTED
        ]
    return replace(_own(host).memory, host=name, allocator=rows)


def _own(host: HostSummary) -> Report:
    return report_from(host.own_report())
