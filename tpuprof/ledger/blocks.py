"""Blocks of a ledger file: each has a length and a checksum, so that a file cut anywhere keeps its whole blocks.

A block is a header of 16 bytes (magic, kind, format, length, CRC-32 of what comes before and of the payload) and its
payload. A reader that meets damage looks for the next magic number and counts the bytes between.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import NamedTuple

MAGIC = b"TPLB"
FORMAT = 1
_HEADER = struct.Struct("<4sHHII")
HEADER_BYTES = _HEADER.size
# No block is larger (bytes): a length beyond it is damage, not something to allocate.
MAX_PAYLOAD = 64 * 2**20


class Kind(IntEnum):
    """What a block holds. Readers skip kinds that they do not know."""

    META = 1  # JSON: which job, host, rank and process
    STEPS = 2  # rows, see `rows.py`
    EVENTS = 3  # JSON: a list of events
    LIFE = 4  # clock readings: the process was alive


class Block(NamedTuple):
    """One whole block."""

    kind: int
    payload: bytes


def encode(kind: Kind, payload: bytes) -> bytes:
    """A block as bytes."""
    head = struct.pack("<4sHHI", MAGIC, kind, FORMAT, len(payload))
    return head + struct.pack("<I", zlib.crc32(payload, zlib.crc32(head))) + payload


def decode(data: bytes) -> tuple[list[Block], int]:
    """All whole blocks of a file, in order, and how many of its bytes belong to none. Raises nothing."""
    blocks: list[Block] = []
    at = lost = 0
    while at < len(data):
        found = _block_at(data, at)
        if found is None:
            after = data.find(MAGIC, at + 1)
            after = after if after >= 0 else len(data)
            lost += after - at
            at = after
            continue
        blocks.append(found)
        at += HEADER_BYTES + len(found.payload)
    return blocks, lost


def _block_at(data: bytes, at: int) -> Block | None:
    if len(data) - at < HEADER_BYTES:
        return None
    magic, kind, version, length, checksum = _HEADER.unpack_from(data, at)
    if magic != MAGIC or version > FORMAT or length > MAX_PAYLOAD:
        return None
    payload = data[at + HEADER_BYTES : at + HEADER_BYTES + length]
    if len(payload) != length:
        return None
    head = data[at : at + HEADER_BYTES - 4]
    return Block(kind, payload) if zlib.crc32(payload, zlib.crc32(head)) == checksum else None
