"""Products with the same weight, of values that are made of the same inputs: a block that runs twice.

Compilers write the second run of a block in another way than the first, so that its values are not the same to the last
instruction. Its weights are, and so is what its values are made of in the end. Two batches, or two steps in time, that
go through one block are made of other inputs, or of other pieces of one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tpuprof.records import record

if TYPE_CHECKING:
    from tpuprof.decode.hlo import Instruction

# Instructions that lay a value out, or fetch it, and those that take a part of it; XLA's own call joins parts again.
_TAKES_PARTS = frozenset({"slice", "dynamic-slice", "async-start", "async-done", "slice-start", "slice-done"})
_JOINS = frozenset({"concatenate", "ConcatBitcast"})
_MOVES = _TAKES_PARTS | _JOINS | {"convert", "transpose", "reshape", "bitcast"}
# Those that take pieces of a value as the program says, and not as XLA fetches it.
_PIECES = frozenset({"slice", "dynamic-slice"})
# Bits of a mask behind those of the inputs, for pieces of values (bits): masks of thousands of values are kept.
_PIECES_BITS = 1 << 10


@record(frozen=True)
class _Input:
    """An input of the program, by its number; `part` where it may be a part of it."""

    number: int
    part: bool = False


class WeightUses:
    """Follows values back to so many inputs, and notes which products use one; a value is known by what makes it."""

    def __init__(self, inputs: int) -> None:
        self._pieces_from = inputs
        self._inputs: dict[Hashable, _Input] = {}
        # Which inputs a value is made of, and which pieces, as a mask.
        self._made_of: dict[Hashable, int] = {}
        self._uses: dict[tuple[object, ...], list[Instruction]] = {}

    def input(self, value: Hashable, number: int) -> None:
        """A value is an input of the program."""
        self._inputs[value] = _Input(number)
        self._made_of[value] = 1 << number

    def made(self, value: Hashable, each: Instruction, operands: Sequence[Hashable]) -> None:
        """An instruction made a value of these."""
        mask = self._mask(operands)
        if each.opcode in _PIECES:
            taken = hash(tuple(sorted(each.attributes.items())))
            mask |= 1 << (self._pieces_from + taken % _PIECES_BITS)
        self._made_of[value] = mask
        moves = each.opcode if each.opcode in _MOVES else each.custom_call_target
        moved = {self._inputs.get(one) for one in operands} if moves in _MOVES else set()
        one = moved.pop() if len(moved) == 1 else None
        if one is not None:
            self._inputs[value] = replace(
                one, part=moves not in _JOINS and (one.part or moves in _TAKES_PARTS)
            )

    def multiplied(self, each: Instruction, operands: Sequence[Hashable], running: Instruction) -> None:
        """A product was made of these, in an instruction that runs by itself."""
        found = [self._inputs.get(value) for value in operands]
        weights = [one.number for one in found if one is not None and not one.part]
        if len(weights) != 1 or not each.op_name:
            return
        others = [value for value, one in zip(operands, found, strict=True) if one is None or one.part]
        mask = self._mask(others)
        # What comes into a layer on the way forward is not made of its weight. Gradients are, and so is what a layer
        # that runs in turns made before: of two branches with the same weights each has a gradient of its own.
        if mask >> weights[0] & 1:
            return
        key = (each.op_name, tuple(each.shape.dimensions), weights[0], mask)
        self._uses.setdefault(key, []).append(running)

    def second_uses(self) -> list[Instruction]:
        """What runs the second of exactly two such products."""
        pairs = (pair for pair in self._uses.values() if len(pair) == 2)
        return [second for first, second in pairs if first is not second]

    def _mask(self, values: Sequence[Hashable]) -> int:
        found = 0
        for value in values:
            if isinstance(value, tuple):
                found |= self._mask(value)
            else:
                found |= self._made_of.get(value, 0)
        return found
