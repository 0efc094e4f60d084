"""Which compiles of the captured steps come again, line by line: what a cure of them saves in later steps."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from tpuprof.model.compile.compiles import function_of
from tpuprof.model.compile.recurrence import (
    AGAIN,
    RETURNS_FROM_STEPS,
    UNKNOWN_LINE,
    AfterCapture,
    Returns,
    are_regular,
    late_of,
    occasions,
    rate,
    returns,
)
from tpuprof.model.telemetry import compiles_before
from tpuprof.report.schema import CompileRow
from tpuprof.signals import Signals
from tpuprof.units import MS_PER_S

# Share of the captured rate of compiles below which those after the capture, where they came on fewer occasions than
# returning ones do, may be the last ones (ratio). A judgement.
SELDOM_AFTER = 0.5


class Returning(NamedTuple):
    """What of some compiles comes again: their share of all compile time at least and at most, and those in doubt.

    Both are at the rate at which they return. Of `unsure` it is unknown whether they do.
    """

    least: float
    most: float
    unsure: list[CompileRow]


def returning(signals: Signals, compiles: list[CompileRow], chosen: list[CompileRow]) -> Returning:
    """What of the chosen compiles comes again.

    Whether they return is a matter of their line: it may compile for one cause now and for another one then.
    """
    total = sum(row.duration_ms for row in compiles)
    if not total:
        return Returning(0.0, 0.0, [])
    after, captured = signals.after_capture, len(signals.steps)
    least = most = 0.0
    unsure: list[CompileRow] = []
    at_line = by_line(compiles)
    for line, rows in by_line(chosen).items():
        took = sum(row.duration_ms for row in rows)
        compiling = {(row.host, row.step) for row in at_line[line]}
        before = compiles_before(signals.records_if_noted, line)
        late = late_of((step for _, step in compiling if step is not None), signals.steps.number)
        same = len({(row.host, row.step) for row in at_line[line] if row.cause.kind == AGAIN})
        regular = are_regular((step for _, step in compiling if step is not None), signals.steps.number)
        again = returns(line, len(compiling), captured, after, before, late, same, regular)
        seen = len(compiling) / captured
        counts = min(
            rate(line, seen, captured, after) / seen, _later_cost(at_line[line], line, captured, after), 1.0
        )
        most += took * counts * (again is not Returns.NEVER)
        least += took * counts * (again is Returns.YES)
        unsure += rows if again is Returns.UNKNOWN else []
    return Returning(least / total, most / total, unsure)


def may_be_the_last(signals: Signals, chosen: list[CompileRow]) -> bool:
    """Whether compiles after the capture may have been the last ones of the start: a few, far more seldom than in it.

    Optimizers' factors that become 1 in the fiftieth step make one graph more, and it was priced as one that returns.
    """
    after, captured = signals.after_capture, len(signals.steps)
    if after is None or not after.shows(captured):
        return False
    names = {name or UNKNOWN_LINE for name in by_line(chosen)} | {UNKNOWN_LINE}
    lines = [each for name, each in after.lines.items() if name in names]
    cuts = sum(each.cuts for each in lines)
    compiling = len({(row.host, row.step) for row in chosen})
    seldom = cuts * captured < SELDOM_AFTER * compiling * after.steps
    return bool(cuts) and occasions(lines) < RETURNS_FROM_STEPS and seldom


def _later_cost(rows: list[CompileRow], line: str, captured: int, after: AfterCapture | None) -> float:
    """What compiles of a line take per step after the capture, beside what they take in it (ratio); 1 where unknown.

    Each may take less there: nothing is recorded.
    """
    later = after.lines_of(line) if after is not None and line and after.shows(captured) else []
    seconds = sum(each.seconds for each in later)
    took = sum(row.duration_ms for row in rows) / captured
    return seconds * MS_PER_S / after.steps / took if after is not None and seconds and took else 1.0


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
