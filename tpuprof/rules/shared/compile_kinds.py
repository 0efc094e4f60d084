"""Compiles in the captured steps by the kind of their cause, and what is said of one as evidence."""

from __future__ import annotations

from tpuprof.model.compile.cause import BAKED_ARRAY, NEW_STATIC, WEAK_TYPE
from tpuprof.model.compile.compiles import function_of
from tpuprof.model.compile.recurrence import AGAIN, RETURNS_FROM_STEPS
from tpuprof.report.labels import places_text, source_of
from tpuprof.report.schema import CompileRow, Evidence
from tpuprof.rules.shared.mask_compiles import for_counts

# Causes that lie in what a program is given.
OF_ARGUMENTS = ("shape", "dtype")


def chosen_compiles(
    compiles: list[CompileRow], kinds: tuple[str, ...], framework: str = ""
) -> list[CompileRow]:
    """Compiles with a cause of these kinds; those that tell none go with the usual one.

    The first graph of a function has nothing to be compared with. It goes with the graphs that follow of that function.
    """
    own = _kinds(compiles, framework)
    told = [kind for kind in own if kind != "unknown"]
    kind_of = {"unknown": _usual(told)}
    chosen = []
    for at, row in enumerate(compiles):
        kind = kind_of.get(own[at], own[at])
        if kind == "first":
            function = function_of(row.program)
            later = [
                own[other]
                for other, each in enumerate(compiles)
                if other != at and function_of(each.program) == function
            ]
            kind = _usual(later) if function and len(later) >= RETURNS_FROM_STEPS - 1 else kind
        if kind in kinds:
            chosen.append(row)
    return chosen


def _kinds(compiles: list[CompileRow], framework: str) -> list[str]:
    """The kind of each compile's cause; JAX: one fault has one kind.

    A function that bakes in other arrays now is another function object. That it makes the same program again where
    the arrays are the same has that cause too, and one change of the program cures both.
    """
    made = {(function_of(row.program), row.line) for row in compiles if bakes_in_arrays(row)}
    return [
        "constant"
        if framework == "jax" and _may_be_remade(row) and (function_of(row.program), row.line) in made
        else row.cause.kind
        for row in compiles
    ]


def bakes_in_arrays(row: CompileRow) -> bool:
    """Whether arrays of constants changed."""
    return row.cause.kind == "constant" and BAKED_ARRAY in row.cause.detail


def definitions_text(compiles: list[CompileRow]) -> str:
    """Where the functions are defined that may be made again, as the end of a title: a fix of that belongs there."""
    frames = [
        row.defined for row in compiles if row.defined and (bakes_in_arrays(row) or _may_be_remade(row))
    ]
    places = list(dict.fromkeys(map(source_of, frames)))
    if len(places) == 1:
        return f"; {frames[0].partition(' (')[0]} is defined at {places[0]}"
    return f"; their functions are defined at {places_text(places)}" if places else ""


def _may_be_remade(row: CompileRow) -> bool:
    """Whether the same program was made again, and JAX states no cause that leaves the function as it was."""
    return row.cause.kind == AGAIN and not row.cause.detail.startswith((NEW_STATIC, WEAK_TYPE))


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

    A step that logs, say, has a graph of its own. With one shape, that would compile once in the whole run. What
    follows from the counts of boolean masks is a matter of the rule on those.
    """
    if kinds != OF_ARGUMENTS:
        return []
    of_masks = {id(row) for row in for_counts(chosen)}
    lines = {row.line for row in chosen if row.cause.kind in OF_ARGUMENTS and id(row) not in of_masks}
    return [row for row in compiles if row.cause.kind == "graph" and row.line in lines and not row.in_read]
