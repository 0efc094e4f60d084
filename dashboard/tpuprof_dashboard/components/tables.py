"""The report's tables, sortable, filterable, with CSV export."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import dash_ag_grid as dag
import dash_mantine_components as dmc

if TYPE_CHECKING:
    from tpuprof.report.schema import Report

# Rows sent to the browser at most; the Report's JSON has all (rows).
MAX_ROWS = 5_000


def report_tables(report: Report) -> list[Any]:
    """A section each for steps, compiles, ops and annotations."""
    steps = [
        {
            "step": row.index,
            "host": row.host,
            "wall ms": row.wall_ms,
            "bound by": row.bound,
            **_parts(row.breakdown_ms),
        }
        for row in report.steps.per_step
    ]
    compiles = [
        {
            "step": row.step,
            "host": row.host,
            "ms": row.duration_ms,
            "graph hash": row.graph_hash,
            "cause": row.cause.detail,
        }
        for row in report.compiles
    ]
    ops = [
        {
            "op": row.name,
            "kind": row.kind,
            "self ms": row.self_ms,
            "total ms": row.total_ms,
            "times": row.occurrences,
            "bytes": row.bytes,
            "annotation": row.annotation,
            "source": row.source,
            "program": row.module,
        }
        for row in report.ops[:MAX_ROWS]
    ]
    annotations = [
        {
            "name": row.name,
            "kind": row.kind,
            "times": row.occurrences,
            "host ms": row.host_ms,
            "device ms": row.device_ms,
        }
        for row in report.annotations
    ]
    return [
        *_section("Steps", "steps-table", steps, "no steps in the trace"),
        *_section("Compiles", "compiles-table", compiles, "nothing was compiled during the capture"),
        *_section("Ops by device self time", "ops-table", ops, "no device ops in the trace"),
        *_section(
            "Annotations", "annotations-table", annotations, "none: use tpuprof.annotate or annotate_modules"
        ),
    ]


def _parts(breakdown: dict[str, float]) -> dict[str, float]:
    """Columns named so that ag-grid does not take their dots and colons for paths."""
    return {name.replace(".", "_"): ms for name, ms in breakdown.items()}


def _section(title: str, table_id: str, rows: list[dict[str, Any]], empty: str) -> list[Any]:
    if not rows:
        return [dmc.Title(title, order=3, mt="lg"), dmc.Text(f"Empty: {empty}.", c="dimmed")]
    button = dmc.Button("CSV", id={"type": "csv", "table": table_id}, size="compact-xs", variant="default")
    heading = dmc.Group([dmc.Title(title, order=3), button], mt="lg", mb="xs")
    return [heading, _grid(table_id, rows)]


def _grid(table_id: str, rows: list[dict[str, Any]]) -> Any:
    return dag.AgGrid(
        id={"type": "table", "table": table_id},
        rowData=rows,
        columnDefs=[
            _column(name, (row.get(name) for row in rows))
            for name in dict.fromkeys(key for r in rows for key in r)
        ],
        defaultColDef={"sortable": True, "filter": True, "resizable": True},
        columnSize="autoSize",
        dashGridOptions={
            "pagination": True,
            "paginationPageSize": 20,
            "animateRows": False,
            "suppressFieldDotNotation": True,
        },
        csvExportParams={"fileName": f"{table_id}.csv"},
        style={"height": "420px"},
    )


def _column(name: str, values: Iterable[Any]) -> dict[str, Any]:
    column: dict[str, Any] = {"field": name, "headerName": name}
    if any(isinstance(value, float) for value in values):
        column |= {
            "type": "rightAligned",
            "valueFormatter": {"function": "params.value == null ? '' : d3.format(',.3f')(params.value)"},
        }
    return column
