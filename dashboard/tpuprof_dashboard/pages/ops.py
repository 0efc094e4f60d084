"""Device ops: self and total time by op, category, program, annotation and source line; the roofline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import html

from tpuprof.report.op_hosts import has_several_hosts, hosts_of, ms_by_host
from tpuprof.report.sections import Compute
from tpuprof.units import format_ms, format_share
from tpuprof_dashboard.components.comparison import changed_ops
from tpuprof_dashboard.components.layout import chart, current, empty, facts, link, section
from tpuprof_dashboard.components.rows import rows_of
from tpuprof_dashboard.components.share_trees import SHAPE, TREE, op_tree
from tpuprof_dashboard.components.tables import sorted_by, table
from tpuprof_dashboard.figures.roofline import roofline
from tpuprof_dashboard.pages.page import Page, View

if TYPE_CHECKING:
    from tpuprof.report.schema import OpRow, Report

_WASTED = "wasted ms"
_GROUPS = {"op": "each op", "category": "category", "program": "program", "annotation": "annotation"}


def _render(view: View) -> list[Any]:
    report = view.report
    if not report.ops:
        reason = "The trace holds no device ops."
        advice = "A host-only profile has none; `tpuprof capture -- python train.py` traces the device too."
        return [empty("No ops", reason, advice)]
    by = view.state.get("by", "op")
    by = by if by in _GROUPS else "op"
    links = [
        link(title, view.here(by=key), fw=700 if key == by else 400, **current(key == by))
        for key, title in _GROUPS.items()
    ]
    links.append(html.A("source line", href="#source-lines", className="tpu-link"))
    choose = dmc.Group([dmc.Text("Grouped by", size="sm"), *links], gap="md")
    rows = _op_rows(report) if by == "op" else _grouped(report, by)
    note = "Self time leaves out ops inside (a loop's body, a call). Per step it is one device's; in all, all devices'."
    if by == "op" and report.ops_left_out.ops:
        note += f" {report.ops_left_out.ops:,} ops that take next to no time are not listed."
    parts = [table(f"ops-by-{by}", rows)]
    if by == "op" and any(op.wasted_ms is not None for op in report.ops):
        note += " Wasted: what the op would save if it reached its roofline."
        order = sorted_by("ops-by-op", _WASTED)
        parts.insert(0, link("Most wasted time first", view.here(sort="wasted", **order)))
    return [
        op_tree(view),
        choose,
        section("Device time", *parts, note=note),
        _roofline(view),
        *_compute(view),
        html.Div(_lines(view), id="source-lines"),
    ]


def _op_rows(report: Report) -> list[dict[str, Any]]:
    if not has_several_hosts(report):
        return [_op_row(op) for op in report.ops]
    rows = []
    for op in report.ops:
        most = next(iter(ms_by_host(op)), "")
        row = _op_row(op)
        rows.append({"op": row.pop("op"), "hosts": hosts_of(op, report), "most on host": most, **row})
    return rows


def _op_row(op: OpRow) -> dict[str, Any]:
    return {
        "op": op.name,
        "category": op.category or op.kind,
        "self ms per step": op.self_ms_per_step,
        "self ms in all": op.self_ms,
        _WASTED: op.wasted_ms,
        "of roofline": op.roofline,
        "limit": op.limit,
        "FLOP/s": op.flops_per_s,
        "bytes/s": op.bytes_per_s,
        "padding": op.padding,
        "matmul type": op.matmul_type,
        "kernel": op.kernel,
        "layout copy": "yes" if op.layout_copy else "",
        "total ms": op.total_ms,
        "device clock ms": op.clock_ms,
        "devices": len(op.cores),
        "times": op.occurrences,
        "FLOP each": op.flops,
        "bytes each": op.bytes,
        "annotation": op.annotation,
        "source": op.source,
        "program": op.program,
    }


def _grouped(report: Report, by: str) -> list[dict[str, Any]]:
    return [
        {
            by: row.name or "(none)",
            "ops": row.ops,
            "self ms per step": row.self_ms_per_step,
            "self ms in all": row.self_ms,
            "times": row.occurrences,
        }
        for row in report.op_groups
        if row.by == by
    ]


def _roofline(view: View) -> Any:
    environment, title = view.report.environment, "Roofline"
    flops, size = environment.get("peak_flops_per_s"), environment.get("peak_hbm_bytes_per_s")
    if not flops or not size:
        reason = (
            "The trace does not state the device's peak FLOP/s and memory bandwidth (only TPU captures do)."
        )
        return section(title, empty("Roofline unavailable", reason))
    figure = roofline(view.report.ops, flops, size, view.template)
    if figure is None:
        reason = "The profiler states no FLOPs and bytes for these ops."
        return section(title, empty("Roofline unavailable", reason))
    note = "Each op by FLOP per byte and the rate it reached; the further below the line, the more time is wasted."
    return section(
        title, chart(figure, "roofline", "Roofline of the ops; the table above has them"), note=note
    )


def _or_unknown(compute: Compute, name: str, what: str) -> str:
    """A time, or that the trace does not tell what it is of."""
    return (
        f"unavailable: the trace does not say {what}"
        if name in compute.unstated
        else format_ms(getattr(compute, name))
    )


def _compute(view: View) -> list[Any]:
    """What of the device's time goes to matmuls, copies and padding, and to which kinds of op."""
    compute = view.report.compute
    if compute is None:
        return []
    rows = [
        ("matmuls", format_ms(compute.matmul_ms_per_step)),
        (
            "matmuls that read float32",
            _or_unknown(compute, "float32_matmul_ms_per_step", "what its matmuls read"),
        ),
        ("layout copies", format_ms(compute.layout_copy_ms_per_step)),
        (
            "ops whose arrays are mostly padding",
            _or_unknown(compute, "padded_ms_per_step", "how arrays are laid out"),
        ),
        ("MFU", format_share(compute.mfu) if compute.mfu is not None else compute.mfu_note),
    ]
    note = "Device self time of a step on one device."
    parts = [section("How the time is used", facts("compute", rows), note=note)]
    for title, key, kinds in (
        ("By kind of op", "kinds", compute.categories),
        ("Kernels", "kernels", compute.kernels),
    ):
        if kinds:
            parts.append(section(title, table(f"ops-{key}", rows_of(kinds)), note=note))
    return parts


def _lines(view: View) -> Any:
    rows = [{"source": row.source, "ops": row.ops, "device ms": row.device_ms} for row in view.report.sources]
    if not rows:
        reason = "The programs carry no source lines."
        advice = "Capture with XLA_HLO_DEBUG=1 set to have them."
        return section("Source lines", empty("Source lines unavailable", reason, advice))
    return section(
        "Source lines",
        table("source-lines", rows),
        note="Device self time of the ops traced from each line, in all: over the capture and all devices.",
    )


PAGE = Page(
    "ops",
    "Ops",
    "Which ops the device spends its time on.",
    _render,
    keys=("by", "sort", TREE, SHAPE),
    changes=(changed_ops,),
    signals=(
        "ops",
        "op_ms",
        "compute",
        "compute_ms",
        "matmuls",
        "mxu_share",
        "bandwidth_share",
    ),
)
