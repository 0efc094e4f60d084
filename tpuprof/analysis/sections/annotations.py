"""Annotations: host time inside each, and device time of the ops that were traced under it."""

from __future__ import annotations

from tpuprof.model.device.op_table import AnnotationTotal, OpTotal, annotation_totals, scope_totals
from tpuprof.model.host_run import HostRun
from tpuprof.report.schema import AnnotationRow
from tpuprof.units import ps_to_ms


def annotation_rows(hosts: list[HostRun], ops: list[OpTotal]) -> list[AnnotationRow]:
    """The annotations of each host; `ops` are those of all."""
    lanes = sum(len(host.steps) * max(len(host.devices), 1) for host in hosts)
    scopes = scope_totals(ops)
    return [
        _annotation_row(each, len(host.steps), lanes)
        for host in hosts
        for each in annotation_totals(host.activity.annotations, scopes, host.steps)
    ]


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
