"""Ops of a Report as columns: an op becomes an object, a row, when somebody looks at it.

A program has ten thousand ops, and readers look at a few. Sums and choices are made over columns, and JSON is written
from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import compress
from typing import Any, overload

from tpuprof.report.schema import CoreRow, OpRow

_NAMES = tuple(each.name for each in fields(OpRow))


class Cores:
    """What devices say of each op, as columns of `CoreRow`: those of the op in row i lie from `place[i]` to the next.

    Ops from `listed` on have none.
    """

    def __init__(self, place: Sequence[int], columns: Sequence[Sequence[Any]], listed: int) -> None:
        self._place, self._columns, self._listed = place, columns, listed

    def __getitem__(self, row: int) -> list[CoreRow]:
        if row >= self._listed:
            return []
        own = slice(self._place[row], self._place[row + 1])
        return [CoreRow(*each) for each in zip(*(column[own] for column in self._columns), strict=True)]

    def plain(self, rows: Iterable[int]) -> list[list[dict[str, Any]]]:
        """Those of several ops as dictionaries."""
        every = [
            {"device": device, "occurrences": occurrences, "total_ms": total_ms, "clock_ms": clock_ms}
            for device, occurrences, total_ms, clock_ms in zip(*self._columns, strict=True)
        ]
        place, listed = self._place, self._listed
        return [every[place[row] : place[row + 1]] if row < listed else [] for row in rows]


class OpRows(Sequence[OpRow]):
    """A list of `OpRow` that holds columns, one for each field."""

    def __init__(self, columns: Mapping[str, Any], rows: Sequence[int]) -> None:
        """`columns` give a value for each of `rows`."""
        self._columns, self._rows = columns, rows

    @staticmethod
    def of(rows: Sequence[OpRow]) -> OpRows:
        """The same rows by column."""
        if isinstance(rows, OpRows):
            return rows
        return OpRows({name: [getattr(row, name) for row in rows] for name in _NAMES}, range(len(rows)))

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> OpRow: ...

    @overload
    def __getitem__(self, at: slice) -> OpRows: ...

    def __getitem__(self, at: int | slice) -> OpRow | OpRows:
        if isinstance(at, slice):
            return OpRows(self._columns, self._rows[at])
        row = self._rows[at]
        return OpRow(*[self._columns[name][row] for name in _NAMES])

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    def column(self, name: str) -> list[Any]:
        """A field of each row."""
        values = self._columns[name]
        return [values[row] for row in self._rows]

    def where(self, chosen: Iterable[object]) -> OpRows:
        """The rows for which that is true."""
        return OpRows(self._columns, list(compress(self._rows, chosen)))

    def also(self, others: OpRows) -> OpRows:
        """These rows, then others of the same ops."""
        return OpRows(self._columns, [*self._rows, *others._rows])

    def with_columns(self, **columns: Sequence[Any]) -> OpRows:
        """The same rows with other values of some fields, one for each row."""
        kept = {name: self.column(name) for name in _NAMES if name not in columns}
        return OpRows({**kept, **columns}, range(len(self)))

    def plain(self, also: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """The rows as dictionaries for JSON; `also` gives more names of fields."""
        cores = self._columns["cores"]
        columns = {name: self.column(name) for name in _NAMES if name != "cores"}
        columns["cores"] = cores.plain(self._rows) if isinstance(cores, Cores) else self.column("cores")
        names = (*_NAMES, *also)
        values = zip(*(columns[also.get(name, name)] for name in names), strict=True)
        return (dict(zip(names, each)) for each in values)  # noqa: B905  # both have one for each name
