"""The lines of a timeline: steps, where time went, annotations, host threads, device queues.

A lane's rows are pyramids of bars (`level_of_detail`), built when first asked for and kept. Times are ps from
the host's origin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tpuprof.model.device.activity import DeviceActivity, OpEvents, OpNames
from tpuprof.model.device.gpu_streams import is_stream
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.host_run import HostRun
from tpuprof.model.intervals import Int64, open_before
from tpuprof.model.timeline import Host, Track
from tpuprof.timeline.level_of_detail import Pyramid, bars_of, pyramid
from tpuprof.timeline.periods import periods

# Levels of nested events drawn of one thread or queue (rows); the lane says how many events lie deeper.
MAX_DEPTH = 6
STEPS, PERIODS, ANNOTATIONS, HOST, DEVICE = "steps", "periods", "annotations", "host", "device"
HOST_GROUP, ANNOTATION_GROUP, STEP_GROUP, PROGRAM_GROUP = "host event", "annotation", "step", "program"
# An op's own bar does not tell whether anything hides it: that is what the parts of the breakdown are for.
OFFLOAD_GROUP, COLLECTIVE_GROUP = "host offload", "collective"
_KIND_GROUPS = {
    OpKind.COMPUTE: "compute",
    OpKind.INFEED_OUTFEED: "infeed_outfeed",
    OpKind.HOST_CALLBACK: "host callback",
    OpKind.OFFLOAD: OFFLOAD_GROUP,
    OpKind.COLLECTIVE: COLLECTIVE_GROUP,
    OpKind.CONTAINER: "loop or call",
    OpKind.ASYNC_WAIT: "prefetch or other asynchronous work",
}


@dataclass(frozen=True)
class Lane:
    """Rows of bars, outermost events first.

    A bar's label is a row of `names`, `groups` (what to colour by) and `details` (program and source line).
    `deeper` counts events nested deeper than the rows go.
    """

    names: list[str]
    groups: list[str]
    details: list[str]
    rows: list[Pyramid]
    deeper: int = 0


@dataclass
class LaneInfo:
    """A lane that can be drawn: its key (stable within a host), title, kind and number of events.

    Its events are among those of `tracks`, which are empty where it shows no events of the trace.
    """

    key: str
    title: str
    kind: str
    events: int
    _build: Callable[[], Lane]
    tracks: tuple[Track, ...] = field(default=(), repr=False)
    _lane: Lane | None = field(default=None, repr=False)

    @property
    def lane(self) -> Lane:
        """The lane itself, built once."""
        if self._lane is None:
            self._lane = self._build()
        return self._lane

    def read(self) -> Lane:
        """The lane, built again where it is not drawn: a look through all lanes keeps none of them."""
        return self._lane if self._lane is not None else self._build()


def lanes_of(host: Host, run: HostRun) -> list[LaneInfo]:
    """All lanes of a host: the summary ones, devices, the training thread, other threads by number of events."""
    threads = tuple(host.threads)
    found = [
        LaneInfo(STEPS, "Steps", STEPS, len(run.steps), lambda: _steps(run), threads),
        LaneInfo(PERIODS, "Time went to", PERIODS, len(run.steps), lambda: _periods(run)),
    ]
    for kind in dict.fromkeys(run.activity.annotations.kind):
        count = run.activity.annotations.kind.count(kind)
        title = f"{kind.replace('_', ' ').capitalize()}s"
        found.append(
            LaneInfo(
                f"{ANNOTATIONS}:{kind}",
                title,
                ANNOTATIONS,
                count,
                lambda kind=kind: _annotations(run, kind),  # type: ignore[misc]
                threads,
            )
        )
    for number, device in enumerate(run.devices):
        found += _device_lanes(number, device, _tracks_of(host, device))
    for plane, tracks in host.gpus:
        found += [_stream_lane(plane.name, track) for track in tracks if is_stream(track)]
    # The training thread comes first among threads, then the busiest.
    order = sorted(
        enumerate(host.threads), key=lambda each: (each[1].label != run.activity.driver, -len(each[1]))
    )
    return found + [
        LaneInfo(
            f"{HOST}:{number}",
            track.label or "thread",
            HOST,
            len(track),
            lambda t=track: _thread(t),  # type: ignore[misc]
            (track,),
        )
        for number, track in order
    ]


def extent(host: Host) -> tuple[int, int]:
    """First and last moment of a host's trace in ps, (0, 1) where it is empty."""
    tracks = [*host.threads, *(track for queue in host.devices.values() for track in queue)]
    tracks += [track for _, queues in host.gpus for track in queues]
    filled = [track for track in tracks if len(track)]
    if not filled:
        return 0, 1
    return min(int(t.start.min()) for t in filled), max(int(t.end.max()) for t in filled)


def _stream_lane(device: str, track: Track) -> LaneInfo:
    title = f"{_short(device)} {track.label}"
    return LaneInfo(
        f"{DEVICE}:{_short(device)}:{track.label}",
        title,
        DEVICE,
        len(track),
        lambda: _thread(track, PROGRAM_GROUP),
        (track,),
    )


def _tracks_of(host: Host, device: DeviceActivity) -> tuple[Track, ...]:
    """Where the events of a device lie; PJRT_DEVICE=CPU leaves them on host threads."""
    for number, plane in host.device_planes.items():
        if plane.name == device.name:
            cores = [track for _, tracks in host.sparse.get(number, []) for track in tracks]
            return (*host.devices[number], *cores)
    for plane, tracks in host.gpus:
        if plane.name == device.name:
            return tuple(tracks)
    return tuple(host.threads)


def _device_lanes(number: int, device: DeviceActivity, tracks: tuple[Track, ...]) -> list[LaneInfo]:
    programs = device.programs
    found = []
    if len(programs.start):
        found.append(
            LaneInfo(
                f"{DEVICE}:{number}:programs",
                f"{_short(device.name)} programs",
                DEVICE,
                len(programs.start),
                lambda: build_lane(
                    programs.names, [PROGRAM_GROUP], [""], programs.start, programs.end, programs.program
                ),
                tracks,
            )
        )
    for key, title, names, events in (
        ("ops", "ops", device.ops, device.op_events),
        ("async", "async ops", device.async_ops, device.async_events),
    ):
        if len(events.op):
            found.append(
                LaneInfo(
                    f"{DEVICE}:{number}:{key}",
                    f"{_short(device.name)} {title}",
                    DEVICE,
                    len(events.op),
                    lambda n=names, e=events: _ops(n, e),  # type: ignore[misc]
                    tracks,
                )
            )
    return found


def _short(name: str) -> str:
    return name.removeprefix("/device:").removeprefix("/host:")


def _steps(run: HostRun) -> Lane:
    names = [f"step {number}" for number in run.steps.number]
    return build_lane(names, [STEP_GROUP], [""], run.steps.start, run.steps.end, np.arange(len(run.steps)))


def _periods(run: HostRun) -> Lane:
    found = periods(run)
    return build_lane(found.names, found.names, [""], found.start, found.end, found.label)


def _annotations(run: HostRun, kind: str) -> Lane:
    table = run.activity.annotations
    chosen = np.array([each == kind for each in table.kind], np.bool_)
    names = list(dict.fromkeys(table.name))
    code = {name: row for row, name in enumerate(names)}
    label = np.array([code[name] for name in table.name], np.int64)
    return build_lane(names, [ANNOTATION_GROUP], [""], table.start[chosen], table.end[chosen], label[chosen])


def _thread(track: Track, group: str = HOST_GROUP) -> Lane:
    names = [*track.plane.events.names, "(unnamed)"]
    label = np.where(track.name_row < 0, len(names) - 1, track.name_row)
    return build_lane(names, [group], [""], track.start, track.end, label)


def _ops(names: OpNames, events: OpEvents) -> Lane:
    groups = [_KIND_GROUPS[OpKind(int(kind))] for kind in names.kind]
    details = [
        " · ".join(filter(None, [category, program, source]))
        for category, program, source in zip(names.category, names.program, names.source, strict=True)
    ]
    return build_lane(names.name, groups, details, events.start, events.end, events.op)


def build_lane(
    names: list[str], groups: list[str], details: list[str], start: Int64, end: Int64, label: Int64
) -> Lane:
    """Sort events into rows by depth. A single group or detail is that of every name."""
    rows = np.flatnonzero(end > start)
    rows = rows[np.lexsort((-end[rows], start[rows]))]
    depth = open_before(start[rows], end[rows])
    deepest = min(int(depth.max(initial=-1)) + 1, MAX_DEPTH)
    pyramids = []
    for level in range(deepest):
        at = rows[depth == level]
        pyramids.append(pyramid(bars_of(start[at], end[at], label[at])))
    count = len(names)
    return Lane(
        names,
        groups if len(groups) == count else groups[:1] * count,
        details if len(details) == count else details[:1] * count,
        pyramids,
        int((depth >= MAX_DEPTH).sum()),
    )
