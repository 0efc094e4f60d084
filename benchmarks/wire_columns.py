"""Encodes protobuf messages by the ten thousand: columns of numbers in, the bytes of all messages out.

A column is a byte matrix with a row a message and a mask of the bytes that count; columns beside each other
make messages, and `flat` joins the rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

VARINT_BYTES = 10


class Column(NamedTuple):
    """Bytes of every message at one place: `data` and `keep` are of shape (messages, width)."""

    data: npt.NDArray[np.uint8]
    keep: npt.NDArray[np.bool_]


def varints(values: npt.ArrayLike) -> Column:
    """Each value as a varint; negative ones take ten bytes, as int64 fields do."""
    numbers = np.asarray(values).astype(np.uint64)
    width = max(1, -(-int(numbers.max(initial=0)).bit_length() // 7))
    place = np.arange(width)
    parts = (numbers[:, None] >> (place * 7).astype(np.uint64)).astype(np.uint8) & 0x7F
    length = 1 + (numbers[:, None] >> (place[1:] * 7).astype(np.uint64) != 0).sum(axis=1)
    more = place < (length - 1)[:, None]
    return Column(parts | (more * np.uint8(0x80)), place < length[:, None])


def constant(data: bytes, count: int) -> Column:
    """The same bytes in each message."""
    row = np.frombuffer(data, np.uint8)
    return Column(np.broadcast_to(row, (count, len(row))), np.ones((count, len(row)), np.bool_))


def beside(*columns: Column) -> Column:
    """Columns one after the other."""
    return Column(
        np.concatenate([c.data for c in columns], axis=1), np.concatenate([c.keep for c in columns], axis=1)
    )


def integer(number: int, values: npt.ArrayLike) -> Column:
    """A varint field."""
    encoded = varints(values)
    return beside(constant(tag(number, 0), len(encoded.data)), encoded)


def message(number: int, *columns: Column) -> Column:
    """A field that holds the message made of the columns."""
    inner = beside(*columns)
    return beside(constant(tag(number, 2), len(inner.data)), varints(inner.keep.sum(axis=1)), inner)


def flat(column: Column) -> bytes:
    """All messages, one after the other."""
    return column.data[column.keep].tobytes()


def varint(value: int) -> bytes:
    """One varint."""
    return flat(varints(np.array([value], np.uint64)))


def tag(number: int, wire_type: int) -> bytes:
    """A field's tag."""
    return bytes([number << 3 | wire_type]) if number < 16 else varint(number << 3 | wire_type)
