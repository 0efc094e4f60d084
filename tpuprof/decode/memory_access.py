"""Reads the `memory_access_breakdown` of an op: how many bytes it reads and writes in each memory.

The profiler states it as a serialized message: field 1 repeats, of which 1 is read (1) or write (2), 2 the memory
and 3 the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

# The memories: what the profiler numbers HBM; others are on the chip.
HBM_SPACE = 1
_ENTRY, _SPACE, _BYTES = 1, 2, 3
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


# The devices of a program state the same for each of its ops.
@lru_cache(maxsize=65_536)
def bytes_by_space(data: bytes) -> Mapping[int, int] | None:
    """Bytes by memory; None where the data is no such message."""
    found: dict[int, int] = {}
    try:
        for field, entry in _fields(data):
            if field == _ENTRY and isinstance(entry, bytes):
                each = {number: value for number, value in _fields(entry) if isinstance(value, int)}
                space = each.get(_SPACE, 0)
                found[space] = found.get(space, 0) + each.get(_BYTES, 0)
    except (IndexError, ValueError):
        return None
    return found


def _fields(data: bytes) -> list[tuple[int, int | bytes]]:
    found: list[tuple[int, int | bytes]] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            found.append((key >> 3, value))
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind, 0)
        if kind == _LENGTH:
            size, at = _varint(data, at)
        elif not size:
            raise ValueError("an unknown wire type")
        if at + size > len(data):
            raise ValueError("the data ends early")
        found.append((key >> 3, data[at : at + size]))
        at += size
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number that never ends")
