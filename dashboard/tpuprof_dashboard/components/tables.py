"""Sortable, filterable tables with CSV export; their order, filters and page are kept in the address."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import dash_ag_grid as dag
import dash_mantine_components as dmc
from dash import html

# Rows sent to the browser at most; the Report's JSON has all (rows).
MAX_ROWS = 5_000
# Rows on one page of a table, and the height of one (screen pixels).
_PAGE_ROWS = 20
_ROW_HEIGHT = 34
_FRAME_HEIGHT = 60
_PAGER_HEIGHT = 48
# Columns are at most this wide by default (screen pixels); the mouse can widen them.
_WIDEST = 460
# Values longer than this make a column that wide (characters).
_LONG = 60
# Columns that hold shares, shown as percentages.
_SHARES = ("share", "of roofline")
# The column whose values are queries of this page, shown as links.
GO = "→"

Row = dict[str, Any]


def table(table_id: str, rows: Sequence[Row], *, go_title: str = "show", digits: int = 3) -> Any:
    """A table of rows; columns are the rows' keys, in order. The `→` column holds links (queries).

    Columns that have no value in any row are left out. Of more than `MAX_ROWS` rows the first are shown, and it
    says so.
    """
    shown = [_flat(row) for row in rows[:MAX_ROWS]]
    keys = dict.fromkeys(key for row in shown for key in row)
    names = [key for key in keys if any(row.get(key) not in (None, "") for row in shown)]
    button = dmc.Button(
        "CSV",
        id={"type": "csv", "table": table_id},
        size="compact-xs",
        variant="default",
        **{"aria-label": f"CSV of {table_id}"},
    )
    count = f"{len(rows):,} rows" if len(rows) != 1 else "1 row"
    if len(rows) > MAX_ROWS:
        count = f"the first {MAX_ROWS:,} of {len(rows):,} rows; `tpuprof analyze --json` has all"
    head = dmc.Group([dmc.Text(count, size="xs", c="dimmed"), button], justify="space-between", mb=4)
    columns = [_column(name, [row.get(name) for row in shown], go_title, digits) for name in names]
    return html.Div([head, _grid(table_id, shown, columns)])


def _grid(table_id: str, shown: list[Row], columns: list[dict[str, Any]]) -> Any:
    height = _FRAME_HEIGHT + _ROW_HEIGHT * max(min(len(shown), _PAGE_ROWS), 2)
    height += _PAGER_HEIGHT if len(shown) > _PAGE_ROWS else 0
    return dag.AgGrid(
        id={"type": "table", "table": table_id},
        rowData=shown,
        columnDefs=columns,
        defaultColDef={"sortable": True, "filter": True, "resizable": True},
        columnSize="autoSize",
        dashGridOptions={
            "pagination": len(shown) > _PAGE_ROWS,
            "paginationPageSize": _PAGE_ROWS,
            "paginationPageSizeSelector": False,
            "animateRows": False,
            "suppressFieldDotNotation": True,
            "rowHeight": _ROW_HEIGHT,
            "headerHeight": 38,
            "enableCellTextSelection": True,
            "tooltipShowDelay": 300,
            "context": {"table": table_id},
        },
        eventListeners={
            "cellKeyDown": ["tpuFollow(params)"],
            "sortChanged": ["tpuKeep(params)"],
            "filterChanged": ["tpuKeep(params)"],
            "paginationChanged": ["tpuKeep(params)"],
        },
        style={"height": f"{height}px"},
    )


def sorted_by(table_id: str, column: str) -> dict[str, str]:
    """The parameter of the address that shows a table sorted by a column, the largest first."""
    return {f"t.{table_id}": json.dumps({"s": [[column, "desc"]]}, separators=(",", ":"))}


def restored(parts: list[Any], state: Mapping[str, str]) -> list[Any]:
    """The parts of a page, its tables in the order, with the filters and on the page that the address says."""
    for each in html.Div(parts)._traverse():
        if isinstance(each, dag.AgGrid):
            _restore(each, state.get(f"t.{each.id['table']}", ""))
    return parts


def _restore(grid: Any, text: str) -> None:
    """Put a grid into the state that `assets/table_state.js` wrote; what names no column of it is left out."""
    try:
        told = json.loads(text or "{}")
    except ValueError:  # no address of ours
        return
    if not isinstance(told, dict):
        return
    known = {each["field"] for each in grid.columnDefs}
    order, filters, page = told.get("s"), told.get("f"), told.get("p")
    initial: dict[str, Any] = {}
    if isinstance(order, list):
        pairs = [each for each in order if isinstance(each, list) and len(each) == 2 and each[0] in known]
        model = [{"colId": name, "sort": "asc" if way == "asc" else "desc"} for name, way in pairs]
        initial["sort"] = {"sortModel": model}
    if isinstance(page, int) and page > 0:
        initial["pagination"] = {"page": page, "pageSize": _PAGE_ROWS}
    if isinstance(filters, dict):
        grid.filterModel = {
            name: each for name, each in filters.items() if name in known and isinstance(each, dict)
        }
    if initial:
        grid.dashGridOptions = {**grid.dashGridOptions, "initialState": initial}


def _flat(row: Row) -> Row:
    return {
        key: value if isinstance(value, (int, float, str)) or value is None else str(value)
        for key, value in row.items()
    }


def _column(name: str, values: Sequence[Any], go_title: str, digits: int) -> dict[str, Any]:
    kinds = {type(value) for value in values}
    column: dict[str, Any] = {"field": name, "headerName": name, "tooltipField": name}
    if name == GO:
        plain = {
            "sortable": False,
            "filter": False,
            "width": 110,
            "pinned": "right",
            "suppressAutoSize": True,
        }
        return {
            "field": name,
            "headerName": go_title.capitalize(),
            "cellRenderer": "Go",
            "cellRendererParams": {"title": go_title},
            **plain,
        }
    if any(len(value) > _LONG for value in values if isinstance(value, str)):
        column |= {"width": _WIDEST, "suppressAutoSize": True}
    if name.startswith("FLOP") or name == "bytes/s":
        written = "params.value == null ? '' : d3.format('.3s')(params.value)"
    elif float in kinds and name.endswith(_SHARES):
        written = "params.value == null ? '' : d3.format('.1%')(params.value)"
    elif float in kinds:
        written = f"params.value == null ? '' : d3.format(',.{digits}f')(params.value)"
    elif int in kinds:
        written = "params.value == null ? '' : d3.format(',')(params.value)"
    else:
        return column
    return column | {
        "type": "rightAligned",
        "filter": "agNumberColumnFilter",
        "valueFormatter": {"function": written},
    }
