"""All source lines whose numbers changed between two programs with the same ops.

Each of them compiles by itself: a program is the same again when all of them are cured. Lines that only follow are left
out: where a slice has another size, so has all that is computed of it, and a mean divides by another number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import combinations, combinations_with_replacement
from typing import TYPE_CHECKING

from tpuprof.model.compile.outline import counted, difference, literal_of, size_of
from tpuprof.model.compile.places import INCIDENTAL, line_order, lines_with, source_of

if TYPE_CHECKING:
    from tpuprof.decode.hlo import Computation, HloModule, Instruction

# Ops that make an array of a set size out of one of any size, by a number of their own.
_CUTS = frozenset({"slice", "pad"})
# Ops that stand for others: what they are given is what those compute.
_CALLS = frozenset({"fusion", "call"})
# How far the maker of a value is looked for through ops that only move it about (ops).
_HOPS = 32
# Arrays of more dimensions, and programs of more changed sizes, are not searched for counts of elements: a search takes
# the square of their number (dimensions, counts).
_DIMENSIONS, _COUNTS = 5, 64
# Digits of a constant in a program (ratio): seven, of which the last is rounded.
_ROUNDED = 2e-6


def changed_lines(
    new: HloModule, old: HloModule, keys: Iterable[Callable[[Instruction], str]]
) -> tuple[list[str], bool]:
    """The lines of ops that changed by these keys, in the order of the source, and whether there may be others.

    A line that follows in size from another one counts only for numbers that do not follow from sizes. Others there may
    be where both programs have an op and the old one tells no lines: then nothing tells which of its lines it is.
    """
    sizes = set(difference(counted(new, size_of), counted(old, size_of))[0])
    follows = _lines_that_follow(new, sizes)
    counts = _counts_of(new, sizes) if follows else []
    found: set[str] = set()
    others = False
    for key in keys:
        added, _ = difference(counted(new, key), counted(old, key))
        for wanted in dict.fromkeys(added):
            ops = [each for each in new.instructions() if key(each) == wanted]
            free = _is_free(ops[0], key, sizes, counts)
            here, there = (lines_with(each, wanted, key) for each in (new, old))
            lines = {line for line in here - there if free or line not in follows}
            if lines and not there and any(key(each) == wanted for each in old.instructions()):
                others = True
            else:
                found |= lines
    return sorted(found, key=line_order), others


def _is_free(
    op: Instruction, key: Callable[[Instruction], str], sizes: set[str], counts: list[float]
) -> bool:
    """Whether what changed of an op is a number of its own also where its line follows in size from another one."""
    if op.opcode in _CUTS:
        return key is not size_of and size_of(op) not in sizes
    return op.opcode == "constant" and key is literal_of and not _is_of_counts(op.literal or "", counts)


def _lines_that_follow(module: HloModule, sizes: set[str]) -> set[str]:
    """Lines that compute of a value whose size changed at another line, or at none that is known."""
    if not sizes:
        return set()
    callers = _callers(module)
    found = set()
    for computation in module.computations.values():
        for each in computation:
            line = source_of(each)
            if not line or line in found or each.opcode in INCIDENTAL:
                continue
            makers = (_maker(module, callers, computation, name) for name in each.operands)
            if any(maker and size_of(maker) in sizes and source_of(maker) != line for maker in makers):
                found.add(line)
    return found


def _callers(module: HloModule) -> dict[str, tuple[Computation, Instruction]]:
    """Which op of which computation calls a computation, by its name."""
    return {
        name: (computation, each)
        for computation in module.computations.values()
        for each in computation
        if each.opcode in _CALLS
        for name in each.called_names()
    }


def _maker(
    module: HloModule,
    callers: dict[str, tuple[Computation, Instruction]],
    computation: Computation,
    name: str,
) -> Instruction | None:
    """The op that computes a value, through fusions and ops that only move it; None where that is unknown."""
    for _ in range(_HOPS):
        each = computation.instructions.get(name)
        if each is None or (each.opcode not in INCIDENTAL and each.opcode != "call"):
            return each
        if each.opcode in _CALLS:
            inner = module.computations.get(next(iter(each.called_names()), ""))
            if inner is None or inner.root is None:
                return None
            computation, name = inner, inner.root.name
        elif each.opcode == "parameter":
            caller = callers.get(computation.name)
            number = each.parameter_number or 0
            if caller is None or number >= len(caller[1].operands):
                return each
            computation, name = caller[0], caller[1].operands[number]
        elif each.operands:
            name = each.operands[0]
        else:
            return None
    return None


def _counts_of(module: HloModule, sizes: set[str]) -> list[float]:
    """How many elements arrays of changed sizes have, over any of their dimensions, and one less: of a variance."""
    shapes = {tuple(each.shape.dimensions) for each in module.instructions() if size_of(each) in sizes}
    found = {
        math.prod(some)
        for shape in shapes
        if len(shape) <= _DIMENSIONS
        for length in range(1, len(shape) + 1)
        for some in combinations(shape, length)
    }
    return [float(each) for count in sorted(found)[:_COUNTS] for each in (count, count - 1) if each > 0]


def _is_of_counts(literal: str, counts: list[float]) -> bool:
    """Whether a number is a count of elements, one over it, or that of two counts: XLA multiplies constants."""
    try:
        value = abs(float(literal))
    except ValueError:
        return False
    if not value or not math.isfinite(value):
        return False
    pairs = combinations_with_replacement([1.0, *counts], 2)
    return any(
        math.isclose(value, a * b, rel_tol=_ROUNDED) or math.isclose(value * a * b, 1.0, rel_tol=_ROUNDED)
        for a, b in pairs
    )
