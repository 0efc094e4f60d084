"""Results of a program that add to a value which the program before left: gradients that are added up step by step.

Such a result is the sum of an input and something else, and nothing but results reads the sum or the input. Weights
are read by the forward pass, an optimizer's moments are scaled first, and a gradient that the program reads has another
reader. XLA adds a table's gradient in the scatter that makes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tpuprof.model.device.live_code import live_names

if TYPE_CHECKING:
    from tpuprof.decode.hlo import Computation, HloModule, Instruction

# Dimensions of an array.
Dims: TypeAlias = "tuple[int, ...]"
# Instructions that hand a value on: also into another layout or, as XLA's CPU compiler sums bfloat16, another type.
_HANDS_ON = frozenset(
    {"copy", "bitcast", "reshape", "transpose", "convert", "get-tuple-element", "copy-start", "copy-done"}
)
_CALLS = frozenset({"fusion", "call"})
# Instructions between a result and its sum that are looked at (instructions): real programs have some five.
HOPS_AT_MOST = 50


class Sum(NamedTuple):
    """A sum: the places of the results that are it, each with its dimensions. A gradient's view is one of its own."""

    results: dict[int, Dims]


def summed_results(module: HloModule) -> list[Sum]:
    """The sums that a program returns."""
    root = module.entry.root
    if root is None:
        return []
    found: dict[tuple[str, str], dict[int, Dims]] = {}
    asked = _Sums(module)
    for at, name in enumerate(root.operands if root.opcode == "tuple" else [root.name]):
        made = module.entry.instructions.get(name)
        added = asked.added(name) if made is not None and not made.shape.is_tuple else None
        if made is not None and added is not None:
            found.setdefault(added, {})[at] = tuple(made.shape.dimensions)
    return [Sum(results) for results in _unread(module, found).values()]


def _unread(
    module: HloModule, sums: dict[tuple[str, str], dict[int, Dims]]
) -> dict[tuple[str, str], dict[int, Dims]]:
    """Those of the sums of which no other result is made, nor of what they add to."""
    while sums:
        live = live_names(module, {at for results in sums.values() for at in results})
        kept = {names: results for names, results in sums.items() if not _any_in(names, live)}
        if len(kept) == len(sums):
            break
        sums = kept
    return sums


def _any_in(names: Iterable[str], live: Iterable[str]) -> bool:
    return any(name in live for name in names)


class _At(NamedTuple):
    """A value: the computation it is in, its instruction, the part of a tuple, and the call that runs it."""

    computation: Computation
    name: str
    part: int
    caller: _At | None

    @property
    def instruction(self) -> Instruction | None:
        """The instruction that makes it."""
        return self.computation.instructions.get(self.name)


class _Sums:
    """Asks of results whether they are the sum of an input and something else."""

    def __init__(self, module: HloModule) -> None:
        self._module = module

    def added(self, result: str) -> tuple[str, str] | None:
        """The names of the sum that a result is and of the input that it adds to; None where it is no such sum."""
        at = self._made(_At(self._module.entry, result, 0, None))
        each = at.instruction
        if each is None:
            return None
        for name in self._summands(each):
            made = self._made(at._replace(name=name, part=0))
            given = made.instruction
            if (
                given is not None
                and made.caller is None
                and given.opcode == "parameter"
                and prod(given.shape.dimensions) == prod(each.shape.dimensions)
            ):
                return each.name, given.name
        return None

    def _summands(self, each: Instruction) -> list[str]:
        """The operands that a sum may add to; empty where it is no sum."""
        if each.opcode == "add":
            return each.operands
        return each.operands[:1] if each.opcode == "scatter" and self._scatters_sums(each) else []

    def _scatters_sums(self, each: Instruction) -> bool:
        combiner = self._module.computations.get(next(iter(each.called_names()), ""))
        done = {one.opcode for one in combiner or ()} - {"parameter", "convert"}
        return done == {"add"}

    def _made(self, at: _At) -> _At:
        """Where a value is made, past what hands it on."""
        for _ in range(HOPS_AT_MOST):
            before = self._before(at)
            if before is None:
                break
            at = before
        return at

    def _before(self, at: _At) -> _At | None:
        """The value that this one is; None where it is made here."""
        each = at.instruction
        if each is None:
            return None
        if each.opcode == "parameter":
            calling = at.caller.instruction if at.caller is not None else None
            number = each.parameter_number or 0
            if at.caller is None or calling is None or number >= len(calling.operands):
                return None
            return at.caller._replace(name=calling.operands[number], part=0)
        if each.opcode in _CALLS:
            return self._inside(at, each)
        if each.opcode not in _HANDS_ON or not each.operands:
            return None
        part = int(each.attributes.get("index", 0)) if each.opcode == "get-tuple-element" else 0
        return at._replace(name=each.operands[0], part=part)

    def _inside(self, at: _At, each: Instruction) -> _At | None:
        """The value that a fusion or a call makes."""
        inside = self._module.computations.get(next(iter(each.called_names()), ""))
        root = inside.root if inside is not None else None
        if inside is None or root is None:
            return None
        if root.opcode == "tuple":
            return _At(inside, root.operands[at.part], 0, at) if at.part < len(root.operands) else None
        return _At(inside, root.name, 0, at)
