"""A trace on one clock: every line's events as absolute picoseconds from the run's origin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import TypeVar

import numpy as np

from tpuprof.bounds import INCONSISTENT
from tpuprof.decode.columns import Line, Plane, StatSums, StatTable, Trace, sum_stats
from tpuprof.decode.joined_lines import one_of_each
from tpuprof.errors import Code, TpuprofError
from tpuprof.model.intervals import Int64, inherit, nesting
from tpuprof.records import record
from tpuprof.units import NS_PER_S, PS_PER_NS, counted

_T = TypeVar("_T")
TPU_PLANE = re.compile(r"/device:TPU:(\d+)$")
SPARSE_PLANE = re.compile(r"/device:TPU:(\d+) SparseCore (\d+)$")
GPU_PREFIX = "/device:GPU:"
HOST_PLANE = "/host:CPU"
METADATA_PLANE = "/host:metadata"
# Ten days: past it a time is damage, not a capture, and picoseconds would no longer fit 63 bits beside it.
MAX_CAPTURE_NS = 10 * 86_400 * NS_PER_S
_FARTHEST_PS = MAX_CAPTURE_NS * PS_PER_NS


@record
class Track:
    """One thread or device queue. By event: `start`, `end` (ps from origin), `name_row` (row in the plane's names).

    `negative` counts the events that state a negative duration; theirs is taken as 0. `far` counts those that begin, or
    last, beyond what a capture can; theirs is cut.
    """

    plane: Plane
    line: Line
    start: Int64
    end: Int64
    name_row: Int64
    negative: int = 0
    far: int = 0
    _parent: Int64 | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        """The thread's or queue's name as the profiler wrote it."""
        return self.line.name

    @property
    def parent(self) -> Int64:
        """Row of the event around each event, -1 for outermost ones; computed once."""
        if self._parent is None:
            self._parent = nesting(self.start, self.end)
        return self._parent

    def outermost(self, rows: Int64) -> Int64:
        """Those of the rows whose events lie in no other of them, in the order given."""
        own = np.full(len(self), -1, np.int64)
        own[rows] = rows
        around = self.parent[rows]
        return rows[(around < 0) | (inherit(own, self.parent)[around] < 0)]

    def named(self, *names: str) -> Int64:
        """Rows of the events of these names, in the line's order."""
        wanted = [row for row, name in enumerate(self.plane.events.names) if name in names]
        return np.flatnonzero(np.isin(self.name_row, wanted)) if wanted else np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.start)

    def stats(self, *names: str) -> StatTable:
        """The events' stats of those names."""
        return self.line.read_stats(self.plane.stat_keys(names))

    def sums(self, name: str) -> StatSums | None:
        """An integer stat added up by the events' names, None where the plane has none of that name."""
        key = self.plane.stat_ids.get(name)
        if key is None:
            return None
        found = self.line.sums.get(key)
        return found or sum_stats(self.line.read_stats([key]), self.name_row, len(self.plane.events.ids))


@record
class Host:
    """One host's file on one clock. `origin_ns` is the time (ns since the epoch where known) of picosecond 0."""

    name: str
    trace: Trace
    origin_ns: int
    threads: list[Track]
    devices: dict[int, list[Track]]
    device_planes: dict[int, Plane]
    warnings: list[str] = field(default_factory=list)
    # SparseCores by the number of their TensorCore's plane.
    sparse: dict[int, list[tuple[Plane, list[Track]]]] = field(default_factory=dict)
    gpus: list[tuple[Plane, list[Track]]] = field(default_factory=list)

    @property
    def event_names(self) -> list[str]:
        """Names of the host's own events."""
        planes = {id(track.plane): track.plane for track in self.threads}
        return [name for plane in planes.values() for name in plane.events.names]


def by_plane(tracks: Iterable[Track], work: Callable[[Plane], _T]) -> dict[int, _T]:
    """`work` of each plane the tracks lie on, done once a plane; keys are the planes' `id`."""
    planes = {id(track.plane): track.plane for track in tracks}
    return {key: work(plane) for key, plane in planes.items()}


def build_host(trace: Trace, name: str) -> Host:
    """Put all lines of a trace on one clock and tell host threads from TensorCore queues.

    Takes the lines' columns over: the trace is left without them, so that a large one is not held twice.
    Raises `TpuprofError` (`input-corrupt`) where the lines' clocks are further apart than a capture can be.
    """
    lines = [line for plane in trace.planes for line in plane.lines if len(line)]
    origin = min((line.timestamp_ns for line in lines), default=0)
    if max((line.timestamp_ns for line in lines), default=0) - origin > MAX_CAPTURE_NS:
        raise TpuprofError(
            Code.CORRUPT,
            f"{trace.source}: its lines lie more than ten days apart, so their clocks cannot be right.",
            "Capture again; if it persists, report the file.",
        )
    host = Host(name, trace, origin, [], {}, {})
    for plane in _one_of_each(trace.planes, host.warnings):
        device = TPU_PLANE.match(plane.name)
        if device:
            plane.lines = _queues(plane, host.warnings)
            host.devices[int(device.group(1))] = _tracks(plane, origin)
            host.device_planes[int(device.group(1))] = plane
        elif sparse := SPARSE_PLANE.match(plane.name):
            host.sparse.setdefault(int(sparse.group(1)), []).append((plane, _tracks(plane, origin)))
        elif plane.name.startswith(GPU_PREFIX):
            host.gpus.append((plane, _tracks(plane, origin)))
        elif plane.name.startswith(HOST_PLANE):
            host.threads.extend(_tracks(plane, origin))
    host.warnings += _damaged(host)
    return host


def _one_of_each(planes: list[Plane], warnings: list[str]) -> list[Plane]:
    """The planes, of several of one device the one with most events: files that were joined have each twice."""
    kept: dict[str, Plane] = {}
    for plane in planes:
        if plane.name.startswith("/device:"):
            own = sum(map(len, plane.lines))
            other = kept.get(plane.name)
            if other is None or own > sum(map(len, other.lines)):
                kept[plane.name] = plane
    several = Counter(plane.name for plane in planes if plane.name in kept)
    warnings += [
        f"{name}: the trace has {count} planes of this name, as where files were joined: figures are of the one with "
        "most events"
        for name, count in several.items()
        if count > 1
    ]
    return [plane for plane in planes if kept.get(plane.name, plane) is plane]


def _queues(plane: Plane, warnings: list[str]) -> list[Line]:
    """The lines of a device that have events, one of each name."""
    kept, left_out = one_of_each(plane.lines)
    if left_out:
        events = sum(map(len, left_out))
        named = ", ".join(sorted({line.name for line in left_out}))
        warnings.append(
            f"{plane.name}: it has several lines of one name side by side ({named}): figures are of the longest, and "
            f"{counted(events, 'event')} are left out"
        )
    return kept


def _tracks(plane: Plane, origin_ns: int) -> list[Track]:
    return [_track(plane, line, origin_ns) for line in plane.lines if len(line)]


def _track(plane: Plane, line: Line, origin_ns: int) -> Track:
    start, end, name = line.offset_ps, line.duration_ps, plane.events.rows(line.metadata_id)
    line.metadata_id = line.offset_ps = line.duration_ps = np.empty(0, np.int64)
    far = _cut_far(start, end)
    start += (line.timestamp_ns - origin_ns) * PS_PER_NS
    negative = int((end < 0).sum())
    if negative:
        np.maximum(end, 0, out=end)
    end += start
    return Track(plane, line, start, end, name, negative, far)


def _cut_far(offset: Int64, duration: Int64) -> int:
    """Cut offsets and durations beyond what a capture can last, in place: sums of them would not fit 63 bits.

    Returns how many events have one.
    """
    if offset.min() >= -_FARTHEST_PS and offset.max() <= _FARTHEST_PS and duration.max() <= _FARTHEST_PS:
        return 0
    far = (offset < -_FARTHEST_PS) | (offset > _FARTHEST_PS) | (duration > _FARTHEST_PS)
    np.clip(offset, -_FARTHEST_PS, _FARTHEST_PS, out=offset)
    np.minimum(duration, _FARTHEST_PS, out=duration)
    return int(far.sum())


def _damaged(host: Host) -> list[str]:
    """A warning for each plane with events that end before they begin, or lie outside of any capture."""
    cores = [each for found in host.sparse.values() for each in found]
    queues = [*host.devices.values(), *(tracks for _, tracks in [*cores, *host.gpus])]
    tracks = [track for each in queues for track in each] + host.threads
    negative: dict[str, int] = {}
    far: dict[str, int] = {}
    for track in tracks:
        for counts, count in ((negative, track.negative), (far, track.far)):
            if count:
                counts[track.plane.name] = counts.get(track.plane.name, 0) + count
    return [
        f"{name}: {INCONSISTENT}{count} events {what}: the profile is damaged"
        for counts, what in (
            (negative, "have negative durations and count as 0 ms"),
            (far, "begin or last more than ten days and are cut"),
        )
        for name, count in counts.items()
    ]
