"""Cuts a profile down to a few representative steps, still a profile that XProf and tpuprof open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tpuprof.share.space import Data
from tpuprof.units import PS_PER_MS, PS_PER_NS

if TYPE_CHECKING:
    from tpuprof.decode import xplane_pb2
    from tpuprof.model.intervals import Bool, Int64
    from tpuprof.report.schema import Report, StepRow

# Steps kept in a bundle: a usual one, the slowest, and what is around it (steps).
STEPS_KEPT = 4
# A step this much longer than the median is worth a look of its own (times the median).
OUTLIER = 1.5
# Rows that span this much more than their steps take are of two stretches of the run (ratio); phases lie in between.
NEIGHBOURS_WITHIN = 2.0
# What of an event, or of the window where that is shorter, makes it one of the window's (share).
MOST = 0.5
METADATA_PLANE = b"/host:metadata"
# The line whose events are runs of programs, on a device's plane.
MODULES_LINE = b"XLA Modules"
# The stat by which events of XLA's CPU client name their program.
MODULE = b"hlo_module"


@dataclass(frozen=True)
class Window:
    """Steps of one host side by side: their numbers, and from when to when in ns from the host's origin."""

    host: str
    steps: list[int]
    start_ns: float
    end_ns: float

    def holds(self, offset_ps: Int64, duration_ps: Int64, line_ns: int) -> Bool:
        """Whether most of each event is in it: a marker of the step beside it that touches it does not count.

        Events have a begin and a length; their line begins at `line_ns` from the host's origin.
        """
        low, high = ((each - line_ns) * PS_PER_NS for each in (self.start_ns, self.end_ns))
        length = np.maximum(duration_ps, 1)
        overlap = np.minimum(offset_ps + length, high) - np.maximum(offset_ps, low)
        touches = (offset_ps < high) & (offset_ps + length > low)
        found: Bool = touches & (overlap >= MOST * np.minimum(length, high - low))
        return found


def representative(report: Report, host: str) -> Window | None:
    """The steps of a host to keep, None where it has none, or few that are little sure.

    Side by side, because a step lasts until the next begins: steps apart from each other would seem to grow.
    With an outlier, the slowest is kept between its neighbours; without, the steps nearest the median.
    """
    rows = sorted((row for row in report.steps.per_step if row.host == host), key=lambda row: row.start_ns)
    # Of so few steps of low confidence each event may be needed to find them again.
    if not rows or (report.steps.confidence == "low" and len(rows) < STEPS_KEPT):
        return None
    count = min(STEPS_KEPT, len(rows))
    median = sorted(row.wall_ms for row in rows)[len(rows) // 2]
    slowest = max(range(len(rows)), key=lambda index: rows[index].wall_ms)
    starts = range(len(rows) - count + 1)
    # Of a long run the report lists some steps: those of two stretches are not neighbours.
    starts_together = [at for at in starts if _are_neighbours(rows[at : at + count])] or starts
    if rows[slowest].wall_ms > OUTLIER * median:
        first = min(starts_together, key=lambda at: abs(at - (slowest - 1)))
    else:
        first = min(starts_together, key=lambda at: _off(rows[at : at + count], median))
    kept = rows[first : first + count]
    end = kept[-1].start_ns + kept[-1].wall_ms * (PS_PER_MS / PS_PER_NS)
    return Window(host, [row.index for row in kept], kept[0].start_ns, end)


def trim(
    planes: list[Data],
    window: Window | None,
    programs: set[str],
    done: Callable[[int, Data], None],
    *,
    ran: Mapping[int, set[str]] | None = None,
) -> dict[str, bytes]:
    """Leave events outside the window out of serialized planes, and what only they needed.

    Of the programs embedded in the profile, those that ran inside the window and `programs` stay. Without a window all
    events stay. Where `ran` is given, events outside it are gone, and of the planes in it all else: those stay as they
    are, and it says which programs ran in them. One plane at a time is made into objects, which take some five times
    its bytes; `done` is given the number of each plane, in no order, and what is left of it, serialized, and `planes`
    is emptied meanwhile. Returns the HloProto of each program that is left, by its name.

    Raises `google.protobuf.message.DecodeError` where a plane is damaged.
    """
    left = window if ran is None else None
    origin = first_line_ns(planes) if left is not None else 0
    kept = set(programs).union(*(ran or {}).values())
    embedding = []
    for number, data in enumerate(planes):
        if ran is not None and number in ran:
            done(number, data)
            planes[number] = b""
            continue
        plane = plane_of(data)
        if plane.name == METADATA_PLANE:
            embedding.append(number)
            continue
        _trim_lines(plane, left, origin)
        if window is not None:
            kept |= _programs_run(plane)
            _drop_unused_names(plane)
        done(number, plane.SerializeToString())
        planes[number] = b""
    embedded: dict[str, bytes] = {}
    for number in embedding:
        plane = plane_of(planes[number])
        _trim_lines(plane, left, origin)
        if window is not None:
            _keep_programs(plane, kept | _programs_run(plane))
        embedded |= embedded_programs(plane)
        done(number, plane.SerializeToString())
    return embedded


def plane_of(data: Data) -> xplane_pb2.XPlane:
    """A plane as an object. Raises `google.protobuf.message.DecodeError` where it is damaged."""
    from tpuprof.decode import xplane_pb2

    return xplane_pb2.XPlane.FromString(bytes(data))


def first_line_ns(planes: Sequence[Data]) -> int:
    """The time (ns) of the first line that has events; windows count from it."""
    times = (line.timestamp_ns for plane in map(plane_of, planes) for line in plane.lines if line.events)
    return min(times, default=0)


def embedded_programs(plane: xplane_pb2.XPlane) -> dict[str, bytes]:
    """The serialized HloProto of each program that a plane embeds, by `graph(program_id)`."""
    found = {}
    if plane.name == METADATA_PLANE:
        for metadata in plane.event_metadata.values():
            for stat in metadata.stats:
                if stat.WhichOneof("value") == "bytes_value":
                    found[metadata.name.decode("utf-8", "replace")] = bytes(stat.bytes_value)
    return found


def _are_neighbours(rows: list[StepRow]) -> bool:
    """Whether rows follow one another, with room for a phase between two."""
    length_ns = rows[-1].start_ns - rows[0].start_ns
    return length_ns <= NEIGHBOURS_WITHIN * sum(row.wall_ms for row in rows) * (PS_PER_MS / PS_PER_NS)


def _off(rows: list[StepRow], median: float) -> float:
    return sum(abs(row.wall_ms - median) for row in rows)


def _trim_lines(plane: xplane_pb2.XPlane, window: Window | None, origin_ns: int) -> None:
    if window is not None:
        for line in plane.lines:
            _trim_line(line, window, origin_ns)


def _trim_line(line: xplane_pb2.XLine, window: Window, origin_ns: int) -> None:
    columns = [(each.offset_ps, each.duration_ps) for each in line.events]
    offset, duration = np.array(columns, np.int64).reshape(-1, 2).T
    held = window.holds(offset, duration, line.timestamp_ns - origin_ns).tolist()
    kept = [each for each, stays in zip(line.events, held, strict=True) if stays]
    if len(kept) != len(line.events):
        # A copy first: the messages belong to the list that is emptied.
        copies = [type(each).FromString(each.SerializeToString()) for each in kept]
        del line.events[:]
        line.events.extend(copies)


def _programs_run(plane: xplane_pb2.XPlane) -> set[str]:
    """Names by which programs that ran are known: `graph(id)` of device modules, graph and id on CPU."""
    found: set[str] = set()
    names = {key: each.name.decode("utf-8", "replace") for key, each in plane.event_metadata.items()}
    stats = {
        each.name: key for key, each in plane.stat_metadata.items() if each.name in (MODULE, b"program_id")
    }
    for line in plane.lines:
        if line.name == MODULES_LINE:
            found |= {names.get(event.metadata_id, "") for event in line.events}
        elif MODULE in stats:
            found |= _cpu_programs(plane, line, set(stats.values()))
    return found


def _cpu_programs(plane: xplane_pb2.XPlane, line: xplane_pb2.XLine, keys: set[int]) -> set[str]:
    found = set()
    for event in line.events:
        module, program = "", ""
        for stat in event.stats:
            if stat.metadata_id in keys:
                value = _stat_text(plane, stat)
                if plane.stat_metadata[stat.metadata_id].name == MODULE:
                    module = value
                else:
                    program = value
        if module:
            found.add(f"{module}({program})")
    return found


def _stat_text(plane: xplane_pb2.XPlane, stat: xplane_pb2.XStat) -> str:
    kind = stat.WhichOneof("value")
    if kind == "ref_value":
        return plane.stat_metadata[stat.ref_value].name.decode("utf-8", "replace")
    if kind == "str_value":
        return stat.str_value.decode("utf-8", "replace")
    return str(getattr(stat, kind)) if kind else ""


def _keep_programs(plane: xplane_pb2.XPlane, wanted: set[str]) -> None:
    for key, metadata in list(plane.event_metadata.items()):
        if metadata.name.decode("utf-8", "replace") not in wanted:
            del plane.event_metadata[key]


def _drop_unused_names(plane: xplane_pb2.XPlane) -> None:
    """Drop event names no event has any more; they are most of a large profile's text."""
    used = {event.metadata_id for line in plane.lines for event in line.events}
    waiting = list(used)
    while waiting:
        metadata = plane.event_metadata.get(waiting.pop())
        children = set(metadata.child_id) - used if metadata is not None else set()
        used |= children
        waiting += children
    for key in [key for key in plane.event_metadata if key not in used]:
        del plane.event_metadata[key]
