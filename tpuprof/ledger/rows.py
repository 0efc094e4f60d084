"""Rows of a ledger: one per step, whole numbers only, stored by column.

Each column is written as differences from row to row, byte by byte of equal weight, and packed by zlib: a thousand
rows of steady training take some 30 bytes each.
"""

from __future__ import annotations

import math
import struct
import sys
import zlib
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Stands for "not known" in every column.
UNKNOWN = -1
# Values are kept within this.
LARGEST = 2**60
_HEADER = struct.Struct("<QIH")
_WORD = 2**64 - 1
# Rows of a block take no more than this, unpacked (bytes): the header of a damaged file may claim anything.
MAX_BLOCK_BYTES = 256 * 2**20


class Row(NamedTuple):
    """One step. Times of parts in microseconds, others as named; `UNKNOWN` where nothing measured it.

    `start_ns` is by the ledger's clock (see `Life`). Parts are measured on the training thread and do not overlap:
    `compile_us` in graph cuts that compiled, `input_us` waiting for a loader, `read_us` reading values back from the
    device, `wait_us` waiting for the device without reading, `save_us` and `restore_us` in checkpoints, `cut_us` in
    graph cuts that did not compile. `tracing_us` is what torch_xla's own timers count as tracing, spread over the steps
    between two readings. What is left of the step is other host code.
    """

    step: int
    start_ns: int
    duration_ns: int
    compile_us: int = 0
    input_us: int = 0
    read_us: int = 0
    wait_us: int = 0
    save_us: int = 0
    restore_us: int = 0
    cut_us: int = 0
    tracing_us: int = UNKNOWN
    compiles: int = 0
    graphs: int = 0
    fallbacks: int = 0
    cache_hits: int = 0
    device_bytes: int = UNKNOWN
    host_bytes: int = UNKNOWN
    cpu_us: int = UNKNOWN
    samples_milli: int = UNKNOWN
    graph_ops: int = UNKNOWN


COLUMNS = Row._fields
# Columns whose parts add up to no more than the step.
PARTS = ("compile_us", "input_us", "read_us", "wait_us", "save_us", "restore_us", "cut_us")
_START, _DURATION = COLUMNS.index("start_ns"), COLUMNS.index("duration_ns")


def whole(value: float | None) -> int:
    """A measured value as a column holds it: NaN, infinities and None are unknown."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return UNKNOWN
    return max(-LARGEST, min(LARGEST, int(value)))


def encode(first: int, rows: Sequence[Row]) -> bytes:
    """A block's payload of rows whose first is the ledger's row number `first`."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in COLUMNS]
    # Steps lie end to end: without the lengths of the steps before, starts are all the same.
    before = 0
    for at, length in enumerate(columns[_DURATION]):
        columns[_START][at] -= before
        before += length
    packed = b"".join(_packed(column) for column in columns)
    return _HEADER.pack(first, len(rows), len(COLUMNS)) + zlib.compress(packed, 6)


def decode(payload: bytes) -> tuple[int, dict[str, NDArray[np.int64]]]:
    """Number of the first row, and the columns by name; columns that are not there are unknown.

    Raises `ValueError` where the payload is damaged.
    """
    import numpy as np

    try:
        first, count, columns = _HEADER.unpack_from(payload)
        size = count * columns * 8
        if size > MAX_BLOCK_BYTES:
            raise ValueError("a block says that it holds more rows than a writer puts into one")
        packed = zlib.decompressobj().decompress(payload[_HEADER.size :], size + 1)
    except (struct.error, zlib.error) as error:
        raise ValueError(f"rows cannot be unpacked: {error}") from error
    if len(packed) != size:
        raise ValueError("rows have another length than their header says")
    planes = np.frombuffer(packed, np.uint8).reshape(columns, 8, count)
    differences = np.ascontiguousarray(planes.transpose(0, 2, 1)).view("<i8").reshape(columns, count)
    table = np.cumsum(differences, axis=1, dtype=np.int64)
    found = {name: table[at] for at, name in enumerate(COLUMNS[:columns])}
    if count and columns > _DURATION:
        found["start_ns"][1:] += np.cumsum(found["duration_ns"])[:-1]
    for column in found.values():
        np.clip(column, -LARGEST, LARGEST, out=column)  # what no writer writes
    absent = np.full(count, UNKNOWN, np.int64)
    return first, found | dict.fromkeys(COLUMNS[columns:], absent)


def _packed(column: list[int]) -> bytes:
    """Differences, each with its lowest 64 bits: sums of differences come out right although some do not fit."""
    differences = array(
        "Q", [(value - before) & _WORD for before, value in zip([0, *column], column, strict=False)]
    )
    if sys.byteorder == "big":
        differences.byteswap()
    raw = differences.tobytes()
    return b"".join(raw[weight::8] for weight in range(8))
