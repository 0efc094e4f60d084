"""Rows of a query as JSON, CSV and text."""

from __future__ import annotations

import csv
import io
import json
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpuprof.tables.query import Answer

_NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL")


def is_number(kind: str) -> bool:
    """Whether a DuckDB type is of numbers."""
    return any(word in kind for word in _NUMBERS) and "[" not in kind


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers that are none become null, dates and bytes text."""
    if isinstance(value, (str, bool, int, type(None))):
        return value
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "replace")
    return value if isinstance(value, int) else str(value)


def as_json(answer: Answer) -> str:
    """All rows as a JSON array of objects."""
    rows = [{name: plain(value) for name, value in row.items()} for row in answer.dicts()]
    return json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(answer: Answer) -> str:
    """All rows as CSV, names first; null is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(answer.columns)
    for row in answer.rows:
        values = (plain(value) for value in row)
        writer.writerow(
            json.dumps(each, ensure_ascii=False) if isinstance(each, (list, dict)) else each
            for each in values
        )
    return out.getvalue()


def shown(value: Any) -> str:
    """A value in a cell of the terminal."""
    found = plain(value)
    if found is None:
        return ""
    if isinstance(found, float):
        return f"{found:.6g}"
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
