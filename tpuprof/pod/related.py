"""Columns of a summary that others nearly tell: only what they differ by is kept, most often zeros. Nothing is lost.

A step begins where the one before ended, its parts add up to it, and most ops are in steps and hold no other op.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tpuprof.model.intervals import Int64
from tpuprof.parts import DEVICE_PARTS

_Columns = dict[str, Int64]
PART = "part."


def apart(columns: _Columns, room: Callable[[str, Int64], int]) -> tuple[_Columns, list[str]]:
    """The columns without what others tell of them, and which ones those are, in the order to put them back.

    `room` is what a column takes (bytes).
    """
    found = dict(columns)
    start, end = columns["start"], columns["end"]
    found["start"] = start - np.append(np.int64(0), end[:-1])[: len(start)]
    found["end"] = end - start
    told: list[str] = []
    parts = [name for name in columns if name.startswith(PART)]
    if parts:
        # One of them is what the others leave of the step: the one that takes most room.
        told.append(max(parts, key=lambda name: room(name, columns[name])))
    told += [name for name in _LIKE if name in columns]
    kept = []
    for name in told:
        rest = columns[name] - _expected(name, columns)
        if room(name, rest) < room(name, columns[name]):
            found[name] = rest
            kept.append(name)
    return found, kept


def together(found: _Columns, told: list[str]) -> _Columns:
    """The columns as they were. Raises `KeyError` or `ValueError` where `found` is no such set."""
    columns = dict(found)
    wall = found["end"]
    columns["end"] = np.cumsum(found["start"] + wall)
    columns["start"] = columns["end"] - wall
    for name in told:
        columns[name] = found[name] + _expected(name, columns)
    return columns


def _expected(name: str, columns: _Columns) -> Int64:
    """What the other columns say that this one is."""
    return (
        _LIKE[name](columns) if name in _LIKE else _wall(columns) - _sum(columns, _other_parts(name, columns))
    )


def _wall(columns: _Columns) -> Int64:
    return columns["end"] - columns["start"]


def _sum(columns: _Columns, names: list[str]) -> Int64:
    return sum((columns[name] for name in names), np.zeros(len(columns["end"]), np.int64))


def _other_parts(name: str, columns: _Columns) -> list[str]:
    return [each for each in columns if each.startswith(PART) and each != name]


def _busy(columns: _Columns) -> Int64:
    return _sum(columns, [name for part in DEVICE_PARTS if (name := PART + part) in columns])


# In the order to put them back.
_LIKE: dict[str, Callable[[_Columns], Int64]] = {
    "column.busy": _busy,
    # A thread works where it does not wait.
    "column.host_work": lambda columns: _wall(columns) - columns["column.waited"],
    "op.total_ps": lambda columns: columns["op.self_ps"],
    "op.step_ps": lambda columns: columns["op.self_ps"],
    "op.clock_ps": lambda columns: columns["op.total_ps"],
}
