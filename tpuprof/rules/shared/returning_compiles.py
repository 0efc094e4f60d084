"""Which compiles of the captured steps come again, line by line: what a cure of them saves in later steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tpuprof.model.compile.compiles import function_of
from tpuprof.model.compile.recurrence import AGAIN, RETURNS_FROM_STEPS, Returns, late_of, rate, returns
from tpuprof.model.telemetry import compiles_before
from tpuprof.report.schema import CompileRow
from tpuprof.signals import Signals


def returning_parts(
    signals: Signals, compiles: list[CompileRow], chosen: list[CompileRow]
) -> tuple[float, float]:
    """Share of all compile time that the chosen compiles take at the rate at which they return: at least, at most.

    Whether they return is a matter of their line: it may compile for one cause now and for another one then.
    """
    total = sum(row.duration_ms for row in compiles)
    if not total:
        return 0.0, 0.0
    least = most = 0.0
    for rows, again, counts in _lines_that_return(signals, compiles, chosen):
        took = sum(row.duration_ms for row in rows)
        most += took * counts * (again is not Returns.NEVER)
        least += took * counts * (again is Returns.YES)
    return least / total, most / total


def may_not_return(
    signals: Signals, compiles: list[CompileRow], chosen: list[CompileRow]
) -> list[CompileRow]:
    """Those of the chosen compiles of which it is unknown whether they come again."""
    lines = _lines_that_return(signals, compiles, chosen)
    return [row for rows, again, _ in lines if again is Returns.UNKNOWN for row in rows]


def _lines_that_return(
    signals: Signals, compiles: list[CompileRow], chosen: list[CompileRow]
) -> Iterator[tuple[list[CompileRow], Returns, float]]:
    """The chosen compiles of each line, whether they come again, and how often by what they did in the capture."""
    after, captured = signals.after_capture, len(signals.steps)
    at_line = by_line(compiles)
    for line, rows in by_line(chosen).items():
        compiling = {(row.host, row.step) for row in at_line[line]}
        before = compiles_before(signals.records_if_noted, line)
        late = late_of((step for _, step in compiling if step is not None), signals.steps.number)
        same = len({(row.host, row.step) for row in at_line[line] if row.cause.kind == AGAIN})
        again = returns(line, len(compiling), captured, after, before, late, same)
        seen = len(compiling) / captured
        yield rows, again, min(rate(line, seen, captured, after) / seen, 1.0)


def by_line(rows: list[CompileRow]) -> dict[str, list[CompileRow]]:
    """Compiles by the line that ran when they came, the innermost of the program; empty where it is unknown."""
    found: dict[str, list[CompileRow]] = {}
    for row in rows:
        found.setdefault(row.line, []).append(row)
    return found


def often_compiled(rows: list[CompileRow]) -> list[CompileRow]:
    """Compiles of functions that are compiled again and again; all where none is.

    What a first step compiles beside them, at the same line, has another cause.
    """
    count = Counter(function_of(row.program) for row in rows)
    return [row for row in rows if count[function_of(row.program)] >= RETURNS_FROM_STEPS] or rows
