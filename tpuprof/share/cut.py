"""Leaves most events of an XPlane profile out before it is taken apart: one pass over the mapped file.

What is left is a profile with the same planes and lines, every event of which most is in the window, and the names that
those need. Only planes of which more may be left out are made into objects, which take some five times the bytes they
are made from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tpuprof.share.redact_proto import field, varint
from tpuprof.share.space import Data as Plane
from tpuprof.share.trim import METADATA_PLANE, MODULE, MODULES_LINE, MOST
from tpuprof.units import PS_PER_NS

if TYPE_CHECKING:
    from tpuprof.share.trim import Window

Data = bytes | memoryview
Span = tuple[int, int]
# The fields of a message: by their numbers, where those are that hold bytes, and the values of others.
Fields = tuple[dict[int, list[Span]], dict[int, list[int]]]
# How many messages surround the fields of a space and of a plane.
_SPACE_DEPTH, _PLANE_DEPTH = 0, 1
# Numbers of fields, of a space and of a plane.
_PLANES = 1
_NAME, _LINES, _EVENT_NAMES, _STAT_NAMES, _STATS = 2, 3, 4, 5, 6
_BYTES = 2
# A stride that asks for the place of the first event alone (events).
_FIRST_ALONE = 1 << 60


class Cut(NamedTuple):
    """The planes of a profile in their order, each serialized, and all other fields of it as they are.

    `ran` gives, by its number, the programs that ran in a plane of which nothing else is to be left out.
    """

    planes: list[Plane]
    rest: bytes
    ran: dict[int, set[str]]


class _Line(NamedTuple):
    """Where a line is, and what it says of itself."""

    span: Span
    timestamp_ns: int
    name: bytes
    events: int


def cut(data: Data, window: Window, done: Callable[[], None] = lambda: None) -> Cut | None:
    """The profile with the events of the window; None where it is damaged or the native modules are not built.

    Its planes are serialized, each by itself: joined they would be in memory twice.

    `done` is called when a plane was read, so that a mapped file's pages can be given back.
    """
    try:
        from tpuprof.decode import _xspace
        from tpuprof.share import _cut as _  # noqa: F401  # what cuts a plane
    except ImportError:  # not built, or for another Python or machine
        return None
    try:
        return _cut(data, window, done)
    except (_xspace.DamagedError, ValueError):
        return None


def _cut(data: Data, window: Window, done: Callable[[], None]) -> Cut:
    from tpuprof.decode import _xspace

    spans, _ = _xspace.fields(data, 0, len(data), _SPACE_DEPTH)
    fields = [_xspace.fields(data, *span, _PLANE_DEPTH) for span in spans.pop(_PLANES, [])]
    lines = [[_line(data, span) for span in own.pop(_LINES, [])] for own, _ in fields]
    origin = min((line.timestamp_ns for those in lines for line in those if line.events), default=0)
    done()
    found = Cut([], _copied(data, spans), {})
    for number, (own, those) in enumerate(zip(fields, lines, strict=True)):
        plane, programs = _plane(data, own, those, window, origin)
        found.planes.append(plane)
        if programs is not None:
            found.ran[number] = programs
        done()
    return found


def _line(data: Data, span: Span) -> _Line:
    from tpuprof.decode import _xspace

    _, timestamp_ns, name, _, events, _ = _xspace.line(data, *span, _FIRST_ALONE)
    return _Line(span, timestamp_ns, _bytes(data, name), events)


def _plane(
    data: Data, fields: Fields, lines: list[_Line], window: Window, origin_ns: int
) -> tuple[Plane, set[str] | None]:
    """The plane, and what ran in it where nothing else is to be left out."""
    from tpuprof.share import _cut as native

    spans, numbers = fields
    entries = spans.pop(_EVENT_NAMES, [])
    plane = bytearray(_copied(data, spans))
    for number, values in numbers.items():
        plane += b"".join(varint(number << 3) + varint(value) for value in values)
    names: set[int] = set()
    modules: set[int] = set()
    for line in lines:
        since = line.timestamp_ns - origin_ns
        low, high = ((each - since) * PS_PER_NS for each in (window.start_ns, window.end_ns))
        held, ids = native.held_events(data, *line.span, low, high, MOST)
        plane += field(_LINES, held)
        names |= ids
        modules |= ids if line.name == MODULES_LINE else set()
    if _needs_objects(data, spans):
        return plane + _copied(data, {_EVENT_NAMES: entries}), None
    programs = _names(data, entries, modules)
    return plane + native.kept_entries(data, entries, names, _EVENT_NAMES << 3 | _BYTES), programs


def _needs_objects(data: Data, spans: dict[int, list[Span]]) -> bool:
    """Whether it takes objects to tell what else to leave out of a plane: it embeds programs, or events name theirs.

    Reads what is copied as it is: damage raises.
    """
    from tpuprof.decode import _xspace

    begin, end = np.array(spans.get(_STATS, []), np.int64).reshape(-1, 2).T.copy()
    _xspace.own_stats(data, begin, end)
    table = np.asarray(_xspace.entries(data, spans.get(_STAT_NAMES, []), False)).reshape(
        -1, _xspace.ENTRY_NUMBERS
    )
    stats = {_bytes(data, (begin, end)) for begin, end in table[:, 1:3].tolist()}
    return MODULE in stats or METADATA_PLANE in {_bytes(data, span) for span in spans.get(_NAME, [])[-1:]}


def _names(data: Data, entries: list[Span], wanted: set[int]) -> set[str]:
    """The names of events of these ids; damaged entries raise."""
    from tpuprof.decode import _xspace

    table = np.asarray(_xspace.entries(data, entries, True)).reshape(-1, _xspace.ENTRY_NUMBERS)
    known = {key: (begin, end) for key, begin, end in table[np.isin(table[:, 0], list(wanted)), :3].tolist()}
    return {_bytes(data, known.get(each, (0, 0))).decode("utf-8", "replace") for each in wanted}


def _bytes(data: Data, span: Span) -> bytes:
    return bytes(data[slice(*span)])


def _copied(data: Data, spans: dict[int, list[Span]]) -> bytes:
    return b"".join(field(number, _bytes(data, span)) for number, places in spans.items() for span in places)
