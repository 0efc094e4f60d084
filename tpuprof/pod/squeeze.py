"""Bytes of a summary made smaller.

Python's lzma finds the repeated names of a large program, which are farther apart than zlib looks.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

try:
    import lzma
except ImportError:  # a Python that was built without it
    lzma = None  # type: ignore[assignment]

# Facts of 12,500 ops: 214 kB in 20 ms by zlib, 54 kB in 40 ms by this level of lzma, 40 kB in 240 ms by its usual one.
_LEVEL = 3
_XZ = b"\xfd7zXZ\x00"
_UNREADABLE = (zlib.error, *((lzma.LZMAError,) if lzma else ()))
# What one part of a summary unpacks to at most, and the memory that lzma may take for it (bytes). The report
# of a host with 12,500 ops has 14 MB and this level takes 5 MB; a damaged file of kilobytes could ask for gigabytes.
MOST_BYTES = 256 << 20
_MOST_MEMORY = 64 << 20


def squeezed(data: bytes) -> bytes:
    """The bytes made smaller; equal ones of two hosts stay equal."""
    if lzma is None:
        return zlib.compress(data, 6)
    return lzma.compress(data, preset=_LEVEL, check=lzma.CHECK_CRC32)


def unsqueezed(data: bytes) -> bytes:
    """The bytes as they were. Raises `ValueError` where they cannot be read, or are too many."""
    xz = data.startswith(_XZ)
    if xz and lzma is None:
        raise ValueError("it was written with lzma, which this Python has not")
    reader: Any = lzma.LZMADecompressor(memlimit=_MOST_MEMORY) if xz else zlib.decompressobj()
    try:
        found: bytes = reader.decompress(data, MOST_BYTES)
    except _UNREADABLE as error:
        raise ValueError(str(error)) from error
    if not reader.eof:
        raise ValueError("it is cut off or too large")
    return found


def by_column(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """A table by its columns, in which like values stand together; empty of no rows."""
    return [list(column) for column in zip(*rows, strict=True)]


def by_row(columns: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The same table by its rows. Raises `ValueError` where columns differ in length."""
    return [list(row) for row in zip(*columns, strict=True)]
