"""Compiles that boolean masks and `nonzero` make: for new counts, and of what comes behind those in the step."""

from __future__ import annotations

import re

from tpuprof.report.schema import CompileRow

# Dimensions of a tensor that is indexed (dimensions). A list of indices is `s64[count,dimensions]`; a batch of tokens,
# `s64[rows,length]`, is wider than any tensor has dimensions.
DIMENSIONS_AT_MOST = 8
_CHANGED = re.compile(r"s64\[(\d+),(\d+)\] became s64\[(\d+),(\d+)\]")
# Causes that may be such a count: it is part of the ops (their sizes, slices and constants), or tells nothing.
_MAY_FOLLOW = ("graph", "unknown")


def counts_changed(detail: str) -> bool:
    """Whether all inputs that a compile's cause lists are lists of indices that changed their length."""
    changed = _CHANGED.findall(detail)
    return len(changed) == detail.count(" became ") > 0 and all(
        was != now and wide == still and int(wide) <= DIMENSIONS_AT_MOST for was, wide, now, still in changed
    )


def for_counts(compiles: list[CompileRow]) -> list[CompileRow]:
    """Compiles for which only lists of indices changed their length."""
    return [row for row in compiles if row.cause.kind == "shape" and counts_changed(row.cause.detail)]


def behind_counts(compiles: list[CompileRow]) -> list[CompileRow]:
    """Compiles of other graphs that come behind one for a new count in the same step: its sizes may be in their ops.

    Whether they are cannot be seen: the program may also build other graphs by itself.
    """
    first: dict[tuple[str, int | None], int] = {}
    for row in for_counts(compiles):
        key = (row.host, row.step)
        first[key] = min(first.get(key, row.start_ns), row.start_ns)
    return [
        row
        for row in compiles
        if row.cause.kind in _MAY_FOLLOW
        and (begin := first.get((row.host, row.step))) is not None
        and row.start_ns > begin
    ]
