"""Leaves most events of an XPlane profile out before it is taken apart: one pass over the mapped file.

What is left is a profile with the same planes, lines and names, and every event of which most is in the window. Only
that is made into objects, which take some five times the bytes they are made from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tpuprof.share.redact_proto import field, varint
from tpuprof.share.space import Data as Plane
from tpuprof.share.space import Space

if TYPE_CHECKING:
    from tpuprof.share.trim import Window

Data = bytes | memoryview
# How many messages surround the fields of a space and of a plane.
_SPACE_DEPTH, _PLANE_DEPTH = 0, 1
_PLANES, _LINES = 1, 3
# A stride that asks for the place of the first event alone (events).
_FIRST_ALONE = 1 << 60


def cut(data: Data, window: Window, done: Callable[[], None] = lambda: None) -> Space | None:
    """The profile with the events of the window; None where it is damaged or the native reader is not built.

    Its planes are serialized, each by itself: joined they would be in memory twice.

    `done` is called when a plane was read, so that a mapped file's pages can be given back.
    """
    try:
        from tpuprof.decode import _xspace
    except ImportError:  # not built, or for another Python or machine
        return None
    try:
        return _cut(data, window, done)
    except (_xspace.DamagedError, ValueError):
        return None


def _cut(data: Data, window: Window, done: Callable[[], None]) -> Space:
    from tpuprof.decode import _xspace

    planes = []
    spans, _ = _xspace.fields(data, 0, len(data), _SPACE_DEPTH)
    for begin, end in spans.pop(_PLANES, []):
        own, numbers = _xspace.fields(data, begin, end, _PLANE_DEPTH)
        planes.append((own, numbers, own.pop(_LINES, [])))
    # Where each event is, is kept of one line at a time: of all lines that would be larger than what is left of them.
    heads = (_xspace.line(data, *span, _FIRST_ALONE) for _, _, lines in planes for span in lines)
    origin = min((head[1] for head in heads if head[4]), default=0)
    done()
    found: list[Plane] = []
    for own, numbers, lines in planes:
        plane = bytearray()
        for number, values in numbers.items():
            plane += b"".join(varint(number << 3) + varint(value) for value in values)
        plane += _copied(data, own)
        for begin, end in lines:
            line = _xspace.line(data, begin, end, 1)
            plane += field(_LINES, _line(data, begin, end, line, window, origin))
        found.append(plane)
        done()
    return Space(found, _copied(data, spans))


def _copied(data: Data, spans: dict[int, list[tuple[int, int]]]) -> bytes:
    return b"".join(
        field(number, bytes(data[begin:end])) for number, places in spans.items() for begin, end in places
    )


def _line(
    data: Data,
    begin: int,
    end: int,
    line: tuple[int, int, tuple[int, int], tuple[int, int], int, list[int]],
    window: Window,
    origin_ns: int,
) -> bytes:
    """The bytes of a line with the events of the window. Raises `ValueError` where events do not adjoin."""
    from tpuprof.decode import _xspace

    number, timestamp, _, _, count, offsets = line
    if not count:
        return bytes(data[begin:end])
    ids, offset, duration = (np.empty(count, np.int64) for _ in range(3))
    columns = ids.data, offset.data, duration.data
    seen = np.zeros(_xspace.SEEN_KEYS, np.int64).data
    # No stat is added up.
    _xspace.events(data, offsets[0], end, *columns, seen, 0, np.empty(0, np.int64).data, bytearray())
    kept = np.flatnonzero(window.holds(offset, duration, timestamp - origin_ns))
    last = _event_end(data, offsets[-1])
    around = bytes(data[begin : offsets[0]]) + bytes(data[last:end])
    if _own_fields(around) != (number, timestamp):
        raise ValueError("fields of the line lie between its events")
    # Events that stay beside one another are copied at once.
    runs = np.split(kept, np.flatnonzero(np.diff(kept) > 1) + 1) if len(kept) else []
    parts = ((offsets[run[0]], _event_end(data, offsets[run[-1]])) for run in runs)
    return around + b"".join(bytes(data[first:behind]) for first, behind in parts)


def _own_fields(around: bytes) -> tuple[int, int]:
    from tpuprof.decode import xplane_pb2

    line = xplane_pb2.XLine.FromString(around)
    return line.id, line.timestamp_ns


def _event_end(data: Data, offset: int) -> int:
    """Behind the event whose field begins at `offset`: a tag of one byte, its length, its bytes."""
    length = shift = 0
    at = offset + 1
    while True:
        byte = data[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return at + length
