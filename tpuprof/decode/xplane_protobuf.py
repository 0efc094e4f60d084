"""Reads an XSpace with generated protobuf code: the reference that faster readers must agree with.

It walks events in Python, so it costs about a microsecond an event; `xplane.py` picks the native reader
where one is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tpuprof.decode.columns import EventNames, Line, Plane, StatKind, StatTable, Trace, empty_stats
from tpuprof.errors import Code, TpuprofError
from tpuprof.units import GIGA

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuprof.decode import xplane_pb2

_KIND_BY_FIELD = {
    "double_value": StatKind.DOUBLE,
    "uint64_value": StatKind.UINT64,
    "int64_value": StatKind.INT64,
    "str_value": StatKind.STR,
    "bytes_value": StatKind.BYTES,
    "ref_value": StatKind.REF,
}
_UINT64 = 2**64
# Protobuf's own parser takes no message of 2 GiB or more (bytes).
MAX_BYTES = 2**31 - 1


def parse(data: bytes | memoryview, source: str) -> Trace:
    """Decode the bytes of one `.xplane.pb`.

    Raises `TpuprofError`: `input-truncated` where the bytes end early or are not a protobuf message,
    `input-too-large` from 2 GiB on.
    """
    from google.protobuf.message import DecodeError

    from tpuprof.decode import xplane_pb2

    if len(data) > MAX_BYTES:
        raise TpuprofError(
            Code.TOO_LARGE,
            f"{source}: {len(data) / GIGA:.1f} GB, and no more than 2 GB can be read here.",
            "Install tpuprof again where a C compiler is installed, for the native reader; or capture fewer steps.",
        )
    space = xplane_pb2.XSpace()
    try:
        space.ParseFromString(cast(bytes, data))  # the parser takes any buffer; its stub says bytes
    except DecodeError as error:
        raise TpuprofError(
            Code.TRUNCATED,
            f"{source}: the file ends early or is damaged ({len(data):,} bytes read).",
            "Copy it again from the training host, or capture again with fewer steps.",
        ) from error
    return Trace(
        source=source,
        format="xplane",
        size=len(data),
        planes=[_plane(plane) for plane in space.planes],
        hostnames=[_text(name) for name in space.hostnames],
        errors=[_text(text) for text in space.errors],
        warnings=[_text(text) for text in space.warnings],
    )


def _plane(plane: xplane_pb2.XPlane) -> Plane:
    return Plane(
        id=plane.id,
        name=_text(plane.name),
        lines=[_line(line) for line in plane.lines],
        events=_event_names(plane),
        stat_names={key: _text(meta.name) for key, meta in plane.stat_metadata.items()},
        stats=_stat_table([(0, stat) for stat in plane.stats]),
    )


def _line(line: xplane_pb2.XLine) -> Line:
    events = line.events
    count = len(events)

    def read_stats(keys: Sequence[int]) -> StatTable:
        wanted = frozenset(keys)
        return _stat_table(
            (row, stat)
            for row, event in enumerate(events)
            for stat in event.stats
            if stat.metadata_id in wanted
        )

    return Line(
        id=line.id,
        name=_text(line.display_name) or _text(line.name),
        timestamp_ns=line.timestamp_ns,
        metadata_id=np.fromiter((event.metadata_id for event in events), np.int64, count),
        offset_ps=np.fromiter((event.offset_ps for event in events), np.int64, count),
        duration_ps=np.fromiter((event.duration_ps for event in events), np.int64, count),
        read_stats=read_stats,
    )


def _event_names(plane: xplane_pb2.XPlane) -> EventNames:
    metadata = sorted(plane.event_metadata.items())
    return EventNames(
        ids=np.array([key for key, _ in metadata], np.int64),
        names=[_text(meta.name) for _, meta in metadata],
        display_names=[_text(meta.display_name) for _, meta in metadata],
        stats=_stat_table((row, stat) for row, (_, meta) in enumerate(metadata) for stat in meta.stats),
    )


def _stat_table(stats: Iterable[tuple[int, xplane_pb2.XStat]]) -> StatTable:
    rows, keys, kinds, bits, lengths = [], [], [], [], []
    heap = bytearray()
    for row, stat in stats:
        field = stat.WhichOneof("value")
        kind = _KIND_BY_FIELD[field] if field else StatKind.NONE
        value: Any = getattr(stat, field) if field else 0
        length = 0
        if kind in (StatKind.STR, StatKind.BYTES):
            length, value = len(value), _append(heap, value)
        elif kind == StatKind.DOUBLE:
            value = int(np.float64(value).view(np.uint64))
        rows.append(row)
        keys.append(stat.metadata_id)
        kinds.append(int(kind))
        bits.append(value % _UINT64)
        lengths.append(length)
    if not rows:
        return empty_stats()
    return StatTable(
        row=np.array(rows, np.int64),
        key=np.array(keys, np.int64),
        kind=np.array(kinds, np.uint8),
        bits=np.array(bits, np.uint64),
        length=np.array(lengths, np.int64),
        heap=bytes(heap),
    )


def _append(heap: bytearray, value: bytes) -> int:
    position = len(heap)
    heap += value
    return position


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
