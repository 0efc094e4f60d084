"""What of a program tells it from another form of the same function, and how much two of them differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tpuprof.decode.hlo_shape import ELEMENT_TYPES
from tpuprof.model.compile.places import INCIDENTAL
from tpuprof.records import record

if TYPE_CHECKING:
    from tpuprof.decode.hlo import HloModule, Instruction
    from tpuprof.decode.hlo_pb2 import HloModuleProto

Item = TypeVar("Item")
# Element type and shape.
Type = tuple[str, tuple[int, ...]]
_INCIDENTAL = frozenset(each.encode() for each in INCIDENTAL)
_TILES = re.compile(r"devices=\[([\d,]+)\]")


@record(frozen=True)
class Outline:
    """A program by what it holds, without the program: small enough to be kept of hundreds."""

    types: Counter[Type]
    opcodes: Counter[str]
    literals: Counter[str]
    sizes: Counter[str]
    results: Counter[Type]
    has_lines: bool

    def distance(self, old: Outline) -> int:
        """How much two programs differ.

        An input that changed counts as one that came or went does, which is one more: the numbers of inputs differ.
        Constants that follow from the sizes of inputs, as divisors do, differ with those: they count where no input has
        another size.
        """
        came, went = (self.types - old.types).total(), (old.types - self.types).total()
        inputs = max(came, went)
        far = 10 * inputs + abs(came - went) + 2 * apart(self.opcodes, old.opcodes)
        return far + (0 if came and went else apart(self.literals, old.literals))

    def distance_in_sizes(self, old: Outline) -> int:
        """How much two programs with the same inputs, ops and constants differ; 0 where inputs do too."""
        if apart(self.types, old.types):
            return 0
        return apart(self.sizes, old.sizes) + apart(self.results, old.results)


def outline_of(proto: HloModuleProto) -> Outline:
    """What a program holds, from its message: programs of 50,000 instructions are compared, most of which only here.

    The same as `types_of`, `opcodes_of`, `literals_of`, `size_of` and `result_types` say of its instructions.
    """
    from tpuprof.decode.hlo_proto import entry_of, number_of, place_of

    opcodes: Counter[bytes] = Counter()
    literals: Counter[str] = Counter()
    sizes: Counter[tuple[bytes, int, tuple[int, ...]]] = Counter()
    has_lines = False
    for computation in proto.computations:
        for each in computation.instructions:
            opcode = each.opcode
            if opcode in (b"constant", b"slice"):
                literals[number_of(each)] += 1
            has_lines = has_lines or bool(place_of(each, proto.stack_frame_index)[0])
            if opcode in _INCIDENTAL:
                continue
            opcodes[opcode] += 1
            if each.shape.dimensions:
                sizes[opcode, each.shape.element_type, tuple(each.shape.dimensions)] += 1
    del literals[""]
    entry = entry_of(proto)
    return Outline(
        types_of(entry),
        Counter({name.decode("utf-8", "replace"): count for name, count in opcodes.items()}),
        literals,
        _sizes(sizes),
        Counter(result_types(entry)),
        has_lines,
    )


def _sizes(found: Counter[tuple[bytes, int, tuple[int, ...]]]) -> Counter[str]:
    """What `size_of` says of ops of these opcodes, element types and dimensions."""
    sizes: Counter[str] = Counter()
    for (opcode, element, dimensions), count in found.items():
        name = ELEMENT_TYPES.get(element, "opaque")
        sizes[f"{opcode.decode('utf-8', 'replace')} {typed((name, dimensions))}"] += count
    return sizes


def types_of(module: HloModule) -> Counter[Type]:
    """Element types and shapes of a program's inputs."""
    return Counter(type_of(each) for each in module.entry.parameters())


def type_of(parameter: Instruction) -> Type:
    """Element type and shape of an input, of all devices together where it is sharded."""
    found = _TILES.search(parameter.attributes.get("sharding", ""))
    tiles = [int(each) for each in found.group(1).split(",")] if found else []
    sizes = parameter.shape.dimensions
    tiles += [1] * (len(sizes) - len(tiles))
    return parameter.shape.element_type, tuple(size * tile for size, tile in zip(sizes, tiles, strict=False))


def opcodes_of(module: HloModule) -> Counter[str]:
    """Its ops by opcode, without those that layouts and fusion decide."""
    return Counter(each.opcode for each in module.instructions() if each.opcode not in INCIDENTAL)


def same_ops(new: HloModule, old: HloModule) -> bool:
    """Whether two programs have the same ops but for broadcasts.

    XLA merges broadcasts that are equal: how many there are changes with the sizes of slices.
    """
    return all(set(each) <= {"broadcast"} for each in difference(opcodes_of(new), opcodes_of(old)))


def literals_of(module: HloModule) -> Counter[str]:
    """The numbers that are part of it."""
    return counted(module, literal_of)


def literal_of(each: Instruction) -> str:
    """A number that is part of the program: a constant's value, or the bounds of a slice."""
    if each.opcode == "slice":
        return each.attributes.get("slice", "")
    return each.literal or "" if each.opcode == "constant" else ""


def counted(module: HloModule, key: Callable[[Instruction], str]) -> Counter[str]:
    """Its ops by a key; those whose key is empty are left out."""
    return Counter(value for each in module.instructions() if (value := key(each)))


def size_of(each: Instruction) -> str:
    """An op with the sizes of its result, empty where layouts and fusion decide them."""
    if each.opcode in INCIDENTAL or not each.shape.dimensions:
        return ""
    return f"{each.opcode} {typed((each.shape.element_type, tuple(each.shape.dimensions)))}"


def result_types(module: HloModule) -> list[Type]:
    """Element type and shape of each result, of one device."""
    root = module.entry.root
    if root is None:
        return []
    shapes = root.shape.elements if root.shape.is_tuple else (root.shape,)
    return [(each.element_type, tuple(each.dimensions)) for each in shapes]


def difference(new: Counter[Item], old: Counter[Item]) -> tuple[list[Item], list[Item]]:
    """What one has more of, and what the other has."""
    return list((new - old).elements()), list((old - new).elements())


def apart(new: Counter[Item], old: Counter[Item]) -> int:
    """How many items one has more of, or the other."""
    return (new - old).total() + (old - new).total()


def typed(each: Type) -> str:
    """Element type and shape as HLO writes them: `f32[4,8]`."""
    return f"{each[0]}[{','.join(map(str, each[1]))}]"
