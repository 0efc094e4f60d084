"""Columns of tables as Arrow arrays: text as a dictionary, unknown values as null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tpuprof.model.intervals import Int64
from tpuprof.model.steps import Steps
from tpuprof.tables.schema import BY_NAME, FLAG, INTEGER, NUMBER, SCHEMA, TEXT, Table

_TEXT = pa.dictionary(pa.int32(), pa.string())
_TYPES = {TEXT: _TEXT, INTEGER: pa.int64(), NUMBER: pa.float64(), FLAG: pa.bool_()}


def arrow_schema(table: Table) -> Any:
    """The Arrow schema of a table, with its meaning and that of its columns as metadata."""
    fields = [
        pa.field(each.name, _TYPES[each.kind], each.nullable, {"meaning": each.meaning})
        for each in table.columns
    ]
    return pa.schema(fields, {"schema": SCHEMA, "table": table.name, "row": table.of})


def arrow_table(name: str, columns: Mapping[str, Any]) -> Any:
    """One Arrow table of the columns given by name; every column of the schema must be there."""
    schema = arrow_schema(BY_NAME[name])
    rows = max((len(each) for each in columns.values() if not isinstance(each, str)), default=0)
    arrays = [_whole(field, _array(columns[field.name], field.type, rows)) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def rows_table(name: str, rows: Sequence[Sequence[Any]]) -> Any:
    """One Arrow table of rows whose values are in the order of the schema's columns; None is null."""
    names = BY_NAME[name].column_names
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return arrow_table(name, {key: list(column) for key, column in zip(names, columns, strict=True)})


def joined(name: str, tables: Sequence[Any]) -> Any:
    """Tables of one schema one after the other, with one dictionary per text column."""
    filled = [each for each in tables if len(each)]
    if not filled:
        return arrow_schema(BY_NAME[name]).empty_table()
    return pa.concat_tables(filled).unify_dictionaries()


def coded(codes: npt.NDArray[Any], texts: Sequence[str]) -> Any:
    """Text by code; a code below zero is null, and so is an empty text."""
    known = np.array([bool(text) for text in texts] + [False], np.bool_)
    missing = ~known[np.where(codes < 0, len(texts), codes)]
    indices = pa.array(np.where(missing, 0, codes).astype(np.int32), mask=missing)
    return pa.DictionaryArray.from_arrays(indices, pa.array([_clean(text) for text in texts], pa.string()))


def known_only(values: npt.NDArray[Any], known: npt.NDArray[np.bool_]) -> Any:
    """Values, null where they are not known."""
    return pa.array(values, mask=~known)


def step_of(steps: Steps, start: Int64) -> Any:
    """Number of the step in which each time (ps) lies, null outside steps."""
    if not len(steps):
        return pa.nulls(len(start), pa.int64())
    row = np.maximum(np.searchsorted(steps.start, start, "right") - 1, 0)
    inside = (start >= steps.start[row]) & (start < steps.end[row])
    return known_only(steps.number[row], inside)


def _array(values: Any, kind: Any, rows: int) -> Any:
    """The values as an Arrow array of that type; one text stands for the text of all rows."""
    if isinstance(values, str):
        return coded(np.zeros(rows, np.int32), [values])
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if kind == _TEXT:
        texts = dict.fromkeys(values)
        place = {text: row for row, text in enumerate(texts)}
        codes = np.fromiter((place[text] for text in values), np.int64, len(values))
        return coded(codes, [text or "" for text in texts])
    return pa.array(values, kind)


def _whole(field: Any, values: Any) -> Any:
    """The values; where a column has no unknown ones, an empty text of the trace is an empty text."""
    if field.nullable or field.type != _TEXT or not values.null_count:
        return values
    return values.cast(pa.string()).fill_null("").dictionary_encode()


def _clean(text: str) -> str:
    """The text without halves of characters, which Arrow cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
