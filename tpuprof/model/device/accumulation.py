"""Whether a program computes the gradients of several batches and adds them up: gradient accumulation in one graph.

A weight's update then reads a sum of several products, one for each batch. That alone would also hold of a recurrent
cell, whose weight is used in every time step, or of two views of one batch that meet in the loss. There one product
depends on the others' work. Batches that are only added up share none: what each product is made of, matrix
multiplication by matrix multiplication, is its own.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuprof.decode import hlo_pb2

# Instructions looked at for one weight: updates of real optimizers, with sums of tens of gradients, take hundreds.
LOOKED_AT = 5000
# Share of the weights that must be sums of as many products: the others may be frozen, or used elsewhere.
OF_WEIGHTS = 0.5
_PRODUCTS = frozenset({b"dot", b"convolution"})
_PRODUCT_CALLS = ("matmul", "dot", "gemm", "conv")


def batches_in_one_program(proto: hlo_pb2.HloProto) -> int:
    """How many independent batches a program adds up the gradients of; 1 where there is one, and where none is seen."""
    program = _Program(proto.hlo_module)
    counts: Counter[int] = Counter()
    weights = program.updated()
    for result, size in weights:
        products = program.products_in(result, size)
        if products:
            counts[len(products) if len(products) == 1 or program.apart(products) else 1] += 1
    if not counts:
        return 1
    count, weights_with = max(counts.items(), key=lambda each: (each[1], each[0]))
    return count if weights_with >= OF_WEIGHTS * sum(counts.values()) else 1


def has_products(proto: hlo_pb2.HloProto) -> bool:
    """Whether a program multiplies matrices or convolves, in a loop or outside."""
    return _Program(proto.hlo_module).multiplies()


class _Program:
    """The entry computation as a graph: what is called or fused is part of the instruction that calls it."""

    def __init__(self, module: hlo_pb2.HloModuleProto) -> None:
        self._computations = {each.id: each for each in module.computations}
        entry = self._computations.get(module.entry_computation_id)
        self._entry = list(entry.instructions) if entry is not None else []
        self._root = entry.root_id if entry is not None else 0
        self._table = {each.id: each for each in self._entry}
        self._multiplying: dict[int, bool] = {}
        self._products = {each.id for each in self._entry if self._multiplies(each)}
        self._made_of: dict[int, int] = {}

    def updated(self) -> list[tuple[int, int]]:
        """(instruction, number of elements) of results that have an input's dimensions, two of them at least."""
        inputs = {
            (each.shape.element_type, tuple(each.shape.dimensions))
            for each in self._entry
            if each.opcode == b"parameter" and len(each.shape.dimensions) > 1
        }
        root = self._table.get(self._root)
        results = root.operand_ids if root is not None and root.opcode == b"tuple" else [self._root]
        found = []
        for number in results:
            shape = self._table[number].shape if number in self._table else None
            if shape is not None and (shape.element_type, tuple(shape.dimensions)) in inputs:
                found.append((number, prod(shape.dimensions)))
        return found

    def products_in(self, result: int, size: int) -> set[int]:
        """The products of so many elements that a result is added up of."""
        found: set[int] = set()
        seen: set[int] = set()
        waiting = [result]
        while waiting and len(seen) < LOOKED_AT:
            number = waiting.pop()
            each = self._table.get(number)
            if each is None or number in seen or each.opcode == b"parameter":
                continue
            seen.add(number)
            if number in self._products:
                found.add(number)
                if each.opcode != b"fusion":
                    continue
            # A product's fusion may add what was summed up before it.
            waiting += [
                operand
                for operand in each.operand_ids
                if operand in self._table and self._carries(self._table[operand], size)
            ]
        return found

    def apart(self, products: set[int]) -> bool:
        """Whether none of these products shares a matrix multiplication with another one."""
        self._follow()
        seen = 0
        for number in products:
            own = self._made_of[number]
            if own & seen:
                return False
            seen |= own
        return True

    def _follow(self) -> None:
        """For each instruction the products that it is made of, itself included, as a set of bits."""
        if self._made_of:
            return
        bit = 1
        for each in self._entry:  # operands stand before what uses them
            own = 0
            for operand in each.operand_ids:
                own |= self._made_of.get(operand, 0)
            if each.id in self._products:
                own |= bit
                bit <<= 1
            self._made_of[each.id] = own

    def _carries(self, each: hlo_pb2.HloInstructionProto, size: int) -> bool:
        """Whether a value has so many elements, or is a tuple that may have."""
        shape = each.shape
        return bool(shape.tuple_shapes) or prod(shape.dimensions) == size

    def multiplies(self) -> bool:
        """Whether any instruction is a product, or calls one."""
        return any(self._multiplies(each) for each in self._entry)

    def _multiplies(self, each: hlo_pb2.HloInstructionProto) -> bool:
        if each.opcode in _PRODUCTS:
            return True
        if each.opcode == b"custom-call":
            target = each.custom_call_target
            name = (target.decode("utf-8", "replace") if isinstance(target, bytes) else target).lower()
            return any(word in name for word in _PRODUCT_CALLS)
        return any(self._has_products(called) for called in each.called_computation_ids)

    def _has_products(self, computation: int) -> bool:
        if computation not in self._multiplying:
            self._multiplying[computation] = False  # a program that calls itself would not end
            found = self._computations.get(computation)
            self._multiplying[computation] = found is not None and any(
                self._multiplies(each) for each in found.instructions
            )
        return self._multiplying[computation]
