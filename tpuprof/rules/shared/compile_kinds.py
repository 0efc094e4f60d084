"""Compiles in the captured steps by the kind of their cause, and what is said of one as evidence."""

from __future__ import annotations

from tpuprof.model.compile.compiles import function_of
from tpuprof.model.compile.recurrence import RETURNS_FROM_STEPS
from tpuprof.report.schema import CompileRow, Evidence

# Causes that lie in what a program is given.
OF_ARGUMENTS = ("shape", "dtype")


def chosen_compiles(compiles: list[CompileRow], kinds: tuple[str, ...]) -> list[CompileRow]:
    """Compiles with a cause of these kinds; those that tell none go with the usual one.

    The first graph of a function has nothing to be compared with. It goes with the graphs that follow of that function.
    """
    told = [row.cause.kind for row in compiles if row.cause.kind != "unknown"]
    kind_of = {"unknown": _usual(told)}
    chosen = []
    for row in compiles:
        kind = kind_of.get(row.cause.kind, row.cause.kind)
        if kind == "first":
            function = function_of(row.program)
            later = [
                each.cause.kind
                for each in compiles
                if each is not row and function_of(each.program) == function
            ]
            kind = _usual(later) if function and len(later) >= RETURNS_FROM_STEPS - 1 else kind
        if kind in kinds:
            chosen.append(row)
    return chosen


def _usual(kinds: list[str]) -> str:
    return max(kinds, key=kinds.count) if kinds else "unknown"


def compile_evidence(row: CompileRow) -> Evidence:
    """One compile with its cause, step and line."""
    return Evidence(
        text=f"{row.cause.kind}: {row.cause.detail}",
        value=row.duration_ms,
        unit="ms",
        host=row.host,
        step=row.step,
        start_ns=row.start_ns,
        duration_ms=row.duration_ms,
        source=next(iter(row.cause.places), ""),
        also=row.cause.also,
    )


def graphs_per_shape(
    compiles: list[CompileRow], chosen: list[CompileRow], kinds: tuple[str, ...]
) -> list[CompileRow]:
    """Compiles of other graphs at lines that compile for new shapes: each of those graphs may compile once per shape.

    A step that logs, say, has a graph of its own. With one shape, that would compile once in the whole run.
    """
    if kinds != OF_ARGUMENTS:
        return []
    lines = {row.line for row in chosen if row.cause.kind in OF_ARGUMENTS}
    return [row for row in compiles if row.cause.kind == "graph" and row.line in lines and not row.in_read]
