"""Which advice on recompiles fits: what the causes of the compiles tell, else all of it and how to ask."""

from __future__ import annotations

import re

from tpuprof.model.compile.cause import (
    NEW_FUNCTION,
    NEW_STATIC,
    OF_INPUTS,
    OPS_CHANGED,
    UNKNOWN_FUNCTION,
    WEAK_TYPE,
)
from tpuprof.model.compile.compiles import function_of
from tpuprof.model.compile.recurrence import AGAIN
from tpuprof.report.schema import CompileRow
from tpuprof.rules.programs import JAX
from tpuprof.signals import Signals

# Cases of advice where nothing tells what changed: each may be it.
ANY_CAUSE = frozenset(
    {"decides", "unseen", "function", "static", "number", "flow", "ask", "other", "grows", "seldom"}
)
# The cause of a compile that made the same program, and all others: each has advice of its own in JAX. Where JAX says
# which of the causes it was, that is all; else all are advised, and how to learn which one it is (`ask`).
OTHER, ASK = "other", "ask"
_EXPLAINED = {
    NEW_FUNCTION: "function",
    UNKNOWN_FUNCTION: "function",
    NEW_STATIC: "static",
    WEAK_TYPE: "number",
}
# What JAX calls the program of a loop or a branch that is called outside of a jitted function. Such a program holds the
# functions that the call is given: where those are made again, as a closure is, it compiles again.
FLOW = "flow"
_OF_FLOW = ("jit_cond", "jit_scan", "jit_while")
# Compiles that reads of conditions make: a value decides how many rounds a Python loop has, or which branch is taken.
ENDS = "ends"
_CONDITION = "__bool__ ("
# Graphs that take more inputs than the one before, as where a list of tensors grows. Where one line's do
# so from step to step, and hold the same ops, that is why, and no decision of Python (`DECIDES`).
GROWS, DECIDES = "grows", "decides"
# What happens in some steps only, and the share of the steps that compile below which it may be the cause (share): more
# than half of them are no exception.
SELDOM = "seldom"
SELDOM_BELOW = 0.5
_INPUTS = re.compile(rf"{OF_INPUTS}(\d+) inputs, the graph before it (\d+)")
# Causes that tell nothing of what changed: all advice is given where no compile has another one.
_UNTOLD = ("unknown", "first")


def is_flow(row: CompileRow) -> bool:
    """Whether a compile is of a loop or a branch that is called outside of a jitted function."""
    return function_of(row.program) in _OF_FLOW


def cases_of(signals: Signals, compiles: list[CompileRow]) -> frozenset[str]:
    """What is advised: of compiles that made the same program, the cause that JAX states, else each and how to ask."""
    told = [row for row in compiles if row.cause.kind not in _UNTOLD]
    found = {OTHER for row in told if row.cause.kind != AGAIN}
    found |= {GROWS for row in told if _takes_more(row)}
    decides = not _grow(told)
    if decides and signals.framework != JAX:
        found.add(DECIDES)
        found |= {ENDS for row in told if row.in_read and row.frames and row.frames[0].startswith(_CONDITION)}
    for row in told:
        if row.cause.kind == AGAIN and is_flow(row):
            found.add(FLOW)
        elif row.cause.kind == AGAIN:
            known = {case for said, case in _EXPLAINED.items() if row.cause.detail.startswith(said)}
            found |= known or {*_EXPLAINED.values(), *(() if signals.explains_misses else (ASK,))}
    seldom = len({(row.host, row.step) for row in compiles}) < SELDOM_BELOW * len(signals.steps)
    if OTHER in found and decides and seldom:
        found.add(SELDOM)
    return frozenset(found)


def _grow(compiles: list[CompileRow]) -> bool:
    """Whether a line's graphs take more inputs in several steps, and hold the same ops in one of them."""
    lines: dict[tuple[str | None, int | None], dict[int | None, bool]] = {}
    for row in compiles:
        if _takes_more(row):
            steps = lines.setdefault((row.cause.source_file, row.cause.source_line), {})
            steps[row.step] = steps.get(row.step, False) or OPS_CHANGED not in row.cause.detail
    return any(len(steps) > 1 and any(steps.values()) for steps in lines.values())


def _takes_more(row: CompileRow) -> bool:
    """Whether a graph takes more inputs than the one that it was compared with."""
    found = _INPUTS.match(row.cause.detail)
    return found is not None and int(found.group(1)) > int(found.group(2))
