"""Rows of the Report as rows of a table, whatever fields they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

# Units that end a field's name, as a column's heading says them.
_UNITS = {"ms_per_step": "ms per step", "per_step": "per step", "gb_per_s": "GB/s", "flops_per_s": "FLOP/s"}


def rows_of(
    items: Iterable[Any], leave_out: tuple[str, ...] = (), names: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """A row for each dataclass instance: its fields under readable headings; lists and mappings as text."""
    return [
        {
            (names or {}).get(field.name) or heading(field.name): _cell(getattr(item, field.name))
            for field in fields(item)
            if field.name not in leave_out
        }
        for item in items
    ]


def heading(name: str) -> str:
    """`exposed_ms_per_step` as `exposed ms per step`."""
    for ending, unit in _UNITS.items():
        if name.endswith(ending):
            return f"{name.removesuffix(ending)}{unit}".replace("_", " ")
    return name.replace("_", " ")


def _cell(value: Any) -> Any:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_short(each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_short, value))
    return value


def _short(value: Any) -> str:
    return f"{value:,.3f}" if isinstance(value, float) else str(value)
