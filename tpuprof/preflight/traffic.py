"""How many bytes an instruction reads and writes: of slices the slice alone, of updates in place the update alone.

A fusion that ends in `dynamic-update-slice` writes one layer of a stacked buffer, or one block of a gradient, and not
the whole of it. XLA's own cost analysis counts in the same way (xla/service/hlo_cost_analysis.cc).
"""

from __future__ import annotations

from collections.abc import Callable

from tpuprof.decode.hlo import Computation, HloModule, Instruction
from tpuprof.decode.hlo_shape import HBM, Shape

# What looks at part of its first operand, and no more.
_SLICES = frozenset({"dynamic-slice", "slice", "gather"})
_UPDATE = "dynamic-update-slice"
# What hands a value on as it is.
_VIEWS = frozenset({"bitcast", "copy", "get-tuple-element"})
# How many fusions inside fusions are looked into. libtpu writes one or two; a damaged text may nest them in a circle.
_FUSIONS_DEEP = 4

Size = Callable[[Shape], int]


def in_hbm(shape: Shape) -> int:
    """Padded bytes of the arrays that live in HBM."""
    return shape.bytes_in(HBM)


def in_any_memory(shape: Shape) -> int:
    """Bytes of the values, wherever they are."""
    return shape.bytes


class Traffic:
    """Bytes moved by the instructions of one module, one execution each."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._used: dict[str, dict[str, list[Instruction]]] = {}
        # Names are unique in a module.
        self._shapes = {each.name: each.shape for each in module.instructions()}

    def of(self, instruction: Instruction, size: Size = in_hbm) -> int:
        """Bytes that an instruction reads and writes, by `size` of each array."""
        inner = self._module.called(instruction, "calls") if instruction.opcode == "fusion" else None
        if inner is not None:
            written = self._written(inner, inner.root, instruction.shape, size)
            return written + sum(self._read(inner, each, size) for each in inner.parameters())
        operands = [self._shapes[name] for name in instruction.operands if name in self._shapes]
        if instruction.opcode == _UPDATE and len(operands) > 1:
            return 2 * size(operands[1])
        if instruction.opcode in _SLICES and operands:
            return 2 * size(instruction.shape) + sum(map(size, operands[1:]))
        read, written = sum(map(size, operands)), size(instruction.shape)
        # Of a damaged program an operand may be missing: then as much is read as is written.
        return written + (read if len(operands) == len(instruction.operands) else max(read, written))

    def _written(self, inner: Computation, root: Instruction | None, shape: Shape, size: Size) -> int:
        """What the result costs: `shape`, the instruction's own, says in which memory it lies."""
        if root is None:
            return size(shape)
        if root.opcode == "tuple" and len(root.operands) == len(shape.elements):
            parts = zip(root.operands, shape.elements, strict=True)
            return sum(self._written(inner, inner.instructions.get(name), each, size) for name, each in parts)
        made = _seen_through(inner, root)
        if made.opcode == _UPDATE and len(made.operands) > 1 and made.operands[1] in inner.instructions:
            return min(size(shape), size(inner.instructions[made.operands[1]].shape))
        return size(shape)

    def _read(
        self, inner: Computation, parameter: Instruction, size: Size, depth: int = _FUSIONS_DEEP
    ) -> int:
        """What of a parameter is read: its slices where no more is looked at, nothing where it is updated in place."""
        whole = size(parameter.shape)
        read, names = 0, [parameter.name]
        for name in names:
            if inner.root is not None and name == inner.root.name:
                return whole
            for each in self._users(inner).get(name, ()) if whole else ():
                if each.opcode == "bitcast":
                    names.append(each.name)
                elif each.opcode in _SLICES and each.operands[0] == name:
                    read += size(each.shape)
                elif each.opcode == "fusion" and depth:
                    read += self._read_by_fusion(each, name, size, depth - 1)
                elif each.opcode != _UPDATE or each.operands[0] != name:
                    return whole
        return min(read, whole)

    def _read_by_fusion(self, fusion: Instruction, name: str, size: Size, depth: int) -> int:
        """What a fusion inside a fusion reads of an operand."""
        deeper = self._module.called(fusion, "calls")
        given = deeper.parameters() if deeper is not None else []
        if deeper is None or len(given) != len(fusion.operands):
            return size(self._shapes[name])
        taken = [each for each, operand in zip(given, fusion.operands, strict=True) if operand == name]
        return sum(self._read(deeper, each, size, depth) for each in taken)

    def _users(self, inner: Computation) -> dict[str, list[Instruction]]:
        found = self._used.get(inner.name)
        if found is None:
            found = self._used[inner.name] = {}
            for each in inner:
                for name in dict.fromkeys(each.operands):
                    found.setdefault(name, []).append(each)
        return found


def _seen_through(inner: Computation, root: Instruction) -> Instruction:
    """What makes the value that `root` gives out."""
    seen: set[str] = set()
    while root.opcode in _VIEWS and root.operands and root.name not in seen:
        seen.add(root.name)
        root = inner.instructions.get(root.operands[0], root)
    return root
