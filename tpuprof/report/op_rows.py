"""Ops of a Report as columns: an op becomes an object, a row, when somebody looks at it.

A program has ten thousand ops, and readers look at a few. Sums and choices are made over columns, and JSON is written
from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import compress
from typing import Any, overload

from tpuprof.report.schema import CoreRow, OpRow

_NAMES = tuple(each.name for each in fields(OpRow))
# Fields that hold one text. Devices and hosts have names as well.
TEXTS = tuple(each.name for each in fields(OpRow) if each.type == "str")
# Gives a text for each text.
Change = Callable[[Sequence[str]], list[str]]


def column_of(ops: Sequence[OpRow], name: str) -> list[Any]:
    """A field of each op, of a list or of `OpRows`."""
    return ops.column(name) if isinstance(ops, OpRows) else [getattr(op, name) for op in ops]


def _renamed(cores: list[CoreRow], change: Change) -> list[CoreRow]:
    names = change([each.device for each in cores])
    return [replace(each, device=name) for each, name in zip(cores, names, strict=True)]


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

    def devices(self) -> Sequence[str]:
        """The name of the device of each row."""
        return self._columns[0] if self._columns else ()

    def with_texts(self, change: Change) -> Cores:
        """The same with other names of devices."""
        if not self._columns:
            return self
        return Cores(self._place, [change(self._columns[0]), *self._columns[1:]], self._listed)

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

    def ms_per_step(self) -> float:
        """Device time of their own that all rows take (ms per step and device), as far as it is known."""
        return sum([ms or 0.0 for ms in self.column("self_ms_per_step")])

    def devices(self) -> Iterable[str]:
        """Names of devices that ran them, each once or more often."""
        cores = self._columns["cores"]
        if isinstance(cores, Cores):
            return cores.devices()
        return (each.device for every in self.column("cores") for each in every)

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

    def with_texts(self, change: Change) -> OpRows:
        """The same rows with other texts: `change` gets those of a field, and gives one for each."""
        cores, hosts = self._columns["cores"], self.column("host_names")
        columns: dict[str, Sequence[Any]] = {name: change(self.column(name)) for name in TEXTS}
        if isinstance(cores, Cores):
            columns["cores"] = self._picked(cores.with_texts(change))
        else:
            columns["cores"] = [_renamed(each, change) for each in self.column("cores")]
        columns["host_names"] = [change(each) if each else each for each in hosts]
        return self.with_columns(**columns)

    def _picked(self, cores: Cores) -> Any:
        """Those of these rows, in their order."""
        whole = isinstance(self._rows, range) and self._rows == range(len(self._rows))
        return cores if whole else [cores[row] for row in self._rows]

    def plain(self, also: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """The rows as dictionaries for JSON; `also` gives more names of fields."""
        cores = self._columns["cores"]
        columns = {name: self.column(name) for name in _NAMES if name != "cores"}
        columns["cores"] = cores.plain(self._rows) if isinstance(cores, Cores) else self.column("cores")
        names = (*_NAMES, *also)
        values = zip(*(columns[also.get(name, name)] for name in names), strict=True)
        return (dict(zip(names, each)) for each in values)  # noqa: B905  # both have one for each name
