"""Shapes of HLO values: element type, dimensions, layout, tiles and memory space, and the bytes they take."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache

from tpuprof.records import record

HBM = 0
VMEM = 1
HOST_MEMORY = 5

# Bits per element; sub-byte types are packed.
_BITS = {
    "pred": 8, "s1": 1, "u1": 1, "s2": 2, "u2": 2, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "s16": 16, "u16": 16,
    "s32": 32, "u32": 32, "s64": 64, "u64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "c64": 64,
    "c128": 128, "f4e2m1fn": 4, "f8e5m2": 8, "f8e4m3": 8, "f8e4m3fn": 8, "f8e4m3b11fnuz": 8, "f8e3m4": 8,
    "f8e5m2fnuz": 8, "f8e4m3fnuz": 8, "f8e8m0fnu": 8,
}  # fmt: skip
# Element types by the number the proto gives them.
ELEMENT_TYPES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64", 10: "f16",
    11: "f32", 12: "f64", 13: "tuple", 14: "opaque", 15: "c64", 16: "bf16", 17: "token", 18: "c128",
    19: "f8e5m2", 20: "f8e4m3fn", 21: "s4", 22: "u4", 23: "f8e4m3b11fnuz", 24: "f8e5m2fnuz",
    25: "f8e4m3fnuz", 26: "s2", 27: "u2", 28: "f8e4m3", 29: "f8e3m4", 30: "s1", 31: "u1", 32: "f4e2m1fn",
    33: "f8e8m0fnu",
}  # fmt: skip
_ARRAY = re.compile(r"(?P<type>[a-z][a-z0-9]*)\[(?P<dims>[^\]]*)\](?:\{(?P<layout>[^}]*)\})?")
_TILE = re.compile(r"\(([0-9,*]*)\)")
_MEMORY_SPACE = re.compile(r"S\((\d+)\)")
# Longest size or index that is one (digits): a number of 64 bits.
_DIGITS = 19
_COMMENT = re.compile(r"/\*.*?\*/")


@record(frozen=True)
class Shape:
    """An array, tuple or token. For tuples `element_type` is `tuple` and `elements` its parts.

    `minor_to_major` is the layout (empty where none is given), `tiles` the tiling from outermost to innermost,
    `memory_space` the space the value lives in (0 HBM, 1 VMEM, 2 sync flags, 5 host memory, 6 SMEM).
    """

    element_type: str
    dimensions: tuple[int, ...] = ()
    minor_to_major: tuple[int, ...] = ()
    tiles: tuple[tuple[int, ...], ...] = ()
    memory_space: int = HBM
    elements: tuple[Shape, ...] = ()

    @property
    def is_tuple(self) -> bool:
        """Whether this is a tuple."""
        return self.element_type == "tuple"

    @property
    def count(self) -> int:
        """Number of array elements; those of all parts for a tuple."""
        return sum(each.count for each in self.elements) if self.is_tuple else math.prod(self.dimensions)

    @property
    def bytes(self) -> int:
        """Bytes of the values themselves, without padding; 0 for tokens and opaque values."""
        if self.is_tuple:
            return sum(each.bytes for each in self.elements)
        return (math.prod(self.dimensions) * _BITS.get(self.element_type, 0) + 7) // 8

    @property
    def padded_bytes(self) -> int:
        """Bytes as laid out on the device: dimensions rounded up to the outermost tile, in layout order."""
        if self.is_tuple:
            return sum(each.padded_bytes for each in self.elements)
        if not self.tiles or not self._is_laid_out:
            return self.bytes
        tile = self.tiles[0]
        physical = [self.dimensions[index] for index in reversed(self.minor_to_major)]
        if len(physical) < len(tile):
            physical = [1] * (len(tile) - len(physical)) + physical
        start = len(physical) - len(tile)
        padded = [
            size if index < start else -(-size // tile[index - start]) * tile[index - start]
            for index, size in enumerate(physical)
        ]
        return (math.prod(padded) * _BITS.get(self.element_type, 0) + 7) // 8

    @property
    def _is_laid_out(self) -> bool:
        """Whether the layout orders these dimensions, in tiles that have a size; a damaged file's may not."""
        return (
            sorted(self.minor_to_major) == list(range(len(self.dimensions)))
            and min(self.tiles[0], default=1) > 0
        )

    def leaves(self) -> list[Shape]:
        """The arrays of a nested tuple, flattened; an array is its own only leaf."""
        if not self.is_tuple:
            return [self]
        return [leaf for each in self.elements for leaf in each.leaves()]

    def bytes_in(self, memory_space: int) -> int:
        """Padded bytes of those arrays that live in one memory space."""
        return sum(leaf.padded_bytes for leaf in self.leaves() if leaf.memory_space == memory_space)

    def __str__(self) -> str:
        """`bf16[8,128]` without layout; a tuple in parentheses."""
        if self.is_tuple:
            return f"({', '.join(map(str, self.elements))})"
        return f"{self.element_type}[{','.join(map(str, self.dimensions))}]"


@lru_cache(maxsize=65536)
def parse_shape(text: str) -> Shape:
    """Read a shape as HLO text writes it: `bf16[8,128]{1,0:T(8,128)(2,1)S(1)}`, `(f32[2], s32[])`, `token[]`."""
    text = (_COMMENT.sub("", text) if "/*" in text else text).strip()
    if text.startswith("("):
        return Shape("tuple", elements=tuple(parse_shape(part) for part in split_parts(text[1:-1])))
    found = _ARRAY.match(text)
    if found is None:
        return Shape(text or "opaque")
    dims = _numbers(part.strip("<=? ") for part in found["dims"].split(","))
    minor, tiles, space = _parse_layout(found["layout"] or "")
    return Shape(found["type"], dims, minor, tiles, space)


def split_parts(text: str) -> list[str]:
    """Split at commas outside any bracket, brace, parenthesis or quotation."""
    parts, depth, start, quoted = [], 0, 0, False
    for found in _SPECIAL.finditer(text):
        char = found.group()
        if char == '"':
            quoted = not quoted
        elif quoted or char[0] == "\\":
            continue
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif depth == 0:
            parts.append(text[start : found.start()].strip())
            start = found.end()
    last = text[start:].strip()
    return [*parts, last] if last else parts


_SPECIAL = re.compile(r'\\.|["()\[\]{},]')


def _numbers(parts: Iterable[str]) -> tuple[int, ...]:
    """Those parts that are numbers."""
    return tuple(int(part) for part in parts if _is_number(part.strip()))


def _is_number(part: str) -> bool:
    return part.isascii() and part.isdigit() and len(part) <= _DIGITS


# Programs have few layouts, and many shapes.
@lru_cache(maxsize=4096)
def _parse_layout(text: str) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...], int]:
    order, _, rest = text.partition(":")
    minor = _numbers(order.split(","))
    space = _MEMORY_SPACE.search(rest)
    start = rest.find("T(")
    tiles: list[tuple[int, ...]] = []
    position = start + 1
    while start >= 0 and (found := _TILE.match(rest, position)):
        tiles.append(tuple(int(part) if _is_number(part) else 1 for part in found.group(1).split(",")))
        position = found.end()
    return minor, tuple(tiles), int(space.group(1)) if space else HBM
