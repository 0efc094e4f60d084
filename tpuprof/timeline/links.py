"""Which event hands work to which: across threads, and from the host to a device.

The profiler gives both ends of a hand-over the same number: `_p` with its kind `_pt` where work is handed over, `_c`
with `_ct` where it is taken. A program on a TPU also has the `run_id` of the call that enqueued it, and a kernel on a
GPU the `correlation_id` of its launch. Several sources under one number give no link.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tpuprof.model.device.cpu import TWIN_PREFIX
from tpuprof.model.device.tpu import MODULES_LINE
from tpuprof.model.intervals import Int64
from tpuprof.model.timeline import Host, Track

# Links followed from one event at most (links), and hand-overs one after the other (links): what is further away is
# found from what is found.
MOST_LINKS = 60
MOST_HOPS = 8
# Consumers looked at to find the one around an event (events): those inside of one another are few.
_LOOK_BACK = 64
# XLA's thread pools mark the work of a hand-over by two events without length.
_REGION_END = "ThreadpoolListener::StopRegion"
# Kinds of our own, below those of the profiler: launches on GPUs, and runs by device, counted down from here.
_BY_CORRELATION, _BY_RUN = -1, -2


@dataclass(frozen=True)
class Link:
    """One hand-over between two events of a host: (track, row) of each."""

    source: tuple[Track, int]
    target: tuple[Track, int]


@dataclass
class _Ends:
    """Events at one end of hand-overs: the number of their track, their row, and the kind and number of the work."""

    track: Int64
    row: Int64
    kind: Int64
    number: Int64

    @staticmethod
    def of(parts: list[_Ends]) -> _Ends:
        none = np.empty(0, np.int64)
        columns = ("track", "row", "kind", "number")
        return _Ends(*(np.concatenate([none, *(getattr(each, name) for each in parts)]) for name in columns))


class Links:
    """All hand-overs of a host."""

    def __init__(self, host: Host) -> None:
        devices = [track for queue in host.devices.values() for track in queue]
        streams = [track for _, tracks in host.gpus for track in tracks]
        self._tracks = [*host.threads, *devices, *streams]
        self._number = {id(track): at for at, track in enumerate(self._tracks)}
        self._programs = _program_lines(host, self._number)
        found = [_matched(self._ends("_pt", "_p"), self._without_twins(self._ends("_ct", "_c")))]
        found.append(_matched(self._launches(host.threads), self._launches(streams)))
        taken = {tuple(each) for each in found[0][2:].T.tolist()}
        runs = _matched(self._runs(host, devices=False), self._runs(host, devices=True))
        found.append(runs[:, [tuple(each) not in taken for each in runs[2:].T.tolist()]])
        pairs = np.concatenate(found, axis=1)
        self._out = self._by_track(pairs, 0)
        self._into = self._by_track(pairs, 2)
        self._orders: dict[int, Int64] = {}
        self._reach = {number: self._reaches(number, rows) for number, rows in self._into.items()}

    def __len__(self) -> int:
        return sum(rows.shape[1] for rows in self._out.values())

    def by_tracks(self) -> Iterator[tuple[tuple[Track, Track], Int64]]:
        """The links of each pair of tracks: the rows of their two ends, as columns."""
        for source, pairs in sorted(self._out.items()):
            for target in np.unique(pairs[2]).tolist():
                yield (self._tracks[source], self._tracks[target]), pairs[1::2, pairs[2] == target]

    def from_event(self, track: Track, row: int) -> list[Link]:
        """Hand-overs inside of an event, and those inside of what was handed over; the nearest first."""
        begin, end = int(track.start[row]), int(track.end[row])
        spans = [(self._number.get(id(track), -1), begin, end)]
        found: dict[tuple[int, ...], Link] = {}
        for _ in range(MOST_HOPS):
            following = []
            for span in spans:
                for pair in self._handed_out(*span):
                    if pair in found:
                        continue
                    found[pair] = self._link(pair)
                    if len(found) >= MOST_LINKS:
                        return list(found.values())
                    following.append(self._span(pair))
            spans = following
        return list(found.values())

    def to_event(self, track: Track, row: int) -> list[Link]:
        """The hand-over that led to an event, the one that led to that, and so on; the nearest first."""
        number, begin, end = self._number.get(id(track), -1), int(track.start[row]), int(track.end[row])
        found: dict[tuple[int, ...], Link] = {}
        for _ in range(MOST_HOPS):
            pair = self._around(number, begin, end) or self._around(
                self._programs.get(number, -1), begin, end
            )
            if pair is None or pair in found:
                break
            found[pair] = self._link(pair)
            source = self._tracks[pair[0]]
            number, begin, end = pair[0], int(source.start[pair[1]]), int(source.end[pair[1]])
        return list(found.values())

    def first_inside(self, track: Track, row: int) -> int:
        """The row of the first event with a length in the work that an event without length begins, else -1."""
        number = self._number.get(id(track), -1)
        rows = self._into.get(number)
        at = np.flatnonzero(rows[3] == row) if rows is not None else np.empty(0, np.int64)
        if not len(at):
            return -1
        reach, (order, place) = int(self._reach[number][at[0]]), self._order(track, row)
        for each in order[place : place + _LOOK_BACK].tolist():
            if track.start[each] >= reach:
                return -1
            if track.end[each] > track.start[each]:
                return int(each)
        return -1

    def around_mark(self, track: Track, row: int) -> int:
        """The row of the innermost event with a length around an event without one, else -1."""
        order, place = self._order(track, row)
        for each in order[max(place - _LOOK_BACK, 0) : place][::-1].tolist():
            if track.end[each] > max(track.start[each], track.start[row] - 1):
                return int(each)
        return -1

    def _order(self, track: Track, row: int) -> tuple[Int64, int]:
        """Rows of a track by start, the longer first, and the place in them where a row is."""
        if id(track) not in self._orders:
            self._orders[id(track)] = np.lexsort((-track.end, track.start))
        order = self._orders[id(track)]
        return order, int(np.searchsorted(track.start, track.start[row], "right", sorter=order))

    def _ends(self, kind: str, number: str) -> _Ends:
        parts = []
        for at, track in enumerate(self._tracks):
            stats = track.stats(number)
            if len(stats):
                kinds = track.plane.stat_integers(track.stats(kind), kind, len(track))[stats.row]
                parts.append(_Ends(np.full(len(stats), at), stats.row, kinds, stats.integers()))
        return _Ends.of(parts)

    def _without_twins(self, ends: _Ends) -> _Ends:
        """An op on a CPU and its own end share a number: that is no hand-over."""
        keep = np.ones(len(ends.row), np.bool_)
        for at in np.unique(ends.track).tolist():
            track, own = self._tracks[at], ends.track == at
            twins = [name.startswith(TWIN_PREFIX) for name in track.plane.events.names]
            keep[own] = ~np.array([*twins, False], np.bool_)[track.name_row[ends.row[own]]]
        return _Ends(ends.track[keep], ends.row[keep], ends.kind[keep], ends.number[keep])

    def _launches(self, tracks: list[Track]) -> _Ends:
        parts = []
        for track in tracks:
            stats = track.stats("correlation_id")
            at = np.full(len(stats), self._number[id(track)])
            parts.append(_Ends(at, stats.row, np.full(len(stats), _BY_CORRELATION), stats.integers()))
        return _Ends.of(parts)

    def _runs(self, host: Host, *, devices: bool) -> _Ends:
        """Programs by device and run, on devices or as the host enqueued them."""
        parts = []
        queues = [(index, track) for index, queue in host.devices.items() for track in queue]
        for index, track in queues if devices else [(-1, track) for track in host.threads]:
            if devices and track.label != MODULES_LINE:
                continue
            stats = track.stats("run_id")
            ordinal = np.full(len(stats), index)
            if not devices:
                ordinal = track.plane.stat_integers(
                    track.stats("device_ordinal"), "device_ordinal", len(track), -1
                )
                ordinal = ordinal[stats.row]
            known = ordinal >= 0
            at = np.full(int(known.sum()), self._number[id(track)])
            parts.append(_Ends(at, stats.row[known], _BY_RUN - ordinal[known], stats.integers()[known]))
        return _Ends.of(parts)

    def _by_track(self, pairs: Int64, side: int) -> dict[int, Int64]:
        """The pairs by the track of one side, in order of the start of its events."""
        found = {}
        for number in np.unique(pairs[side]).tolist():
            own = pairs[:, pairs[side] == number]
            found[number] = own[:, np.argsort(self._tracks[number].start[own[side + 1]], kind="stable")]
        return found

    def _reaches(self, number: int, pairs: Int64) -> Int64:
        """Until when what was handed over is worked on (ps)."""
        track = self._tracks[number]
        begin, end = track.start[pairs[3]], track.end[pairs[3]]
        stops = np.sort(track.start[np.isin(track.name_row, track.plane.events.named(_REGION_END))])
        following = np.append(np.sort(np.concatenate((stops, begin))), track.end.max(initial=0))
        region = following[np.minimum(np.searchsorted(following, begin, "right"), len(following) - 1)]
        reaches: Int64 = np.where(end > begin, end, region)
        return reaches

    def _handed_out(self, number: int, begin: int, end: int) -> Iterator[tuple[int, ...]]:
        pairs = self._out.get(number)
        if pairs is None:
            return
        track = self._tracks[number]
        starts = track.start[pairs[1]]
        for at in range(*np.searchsorted(starts, (begin, end + 1)).tolist()):
            if int(track.end[pairs[1, at]]) <= end:
                yield tuple(pairs[:, at].tolist())

    def _around(self, number: int, begin: int, end: int) -> tuple[int, ...] | None:
        """The innermost hand-over whose work an event is part of."""
        pairs = self._into.get(number)
        if pairs is None:
            return None
        starts = self._tracks[number].start[pairs[3]]
        last = int(np.searchsorted(starts, begin, "right"))
        for at in range(last - 1, max(last - 1 - _LOOK_BACK, -1), -1):
            if int(self._reach[number][at]) >= end:
                return tuple(pairs[:, at].tolist())
        return None

    def _span(self, pair: tuple[int, ...]) -> tuple[int, int, int]:
        """The work that a link leads to: its track, and from when to when (ps)."""
        number, row = pair[2], pair[3]
        at = int(np.flatnonzero(self._into[number][3] == row)[0])
        return number, int(self._tracks[number].start[row]), int(self._reach[number][at])

    def _link(self, pair: tuple[int, ...]) -> Link:
        return Link((self._tracks[pair[0]], pair[1]), (self._tracks[pair[2]], pair[3]))


def _program_lines(host: Host, numbers: dict[int, int]) -> dict[int, int]:
    """By the number of a TPU's line that of the line with its programs: an op was launched with its program."""
    found: dict[int, int] = {}
    for queue in host.devices.values():
        for programs in [track for track in queue if track.label == MODULES_LINE][:1]:
            found |= {numbers[id(track)]: numbers[id(programs)] for track in queue if track is not programs}
    return found


def _matched(sources: _Ends, targets: _Ends) -> Int64:
    """(track, row, track, row) of each target whose number one source alone has, as columns."""
    found = [np.empty((4, 0), np.int64)]
    for kind in np.intersect1d(sources.kind, targets.kind).tolist():
        give, take = np.flatnonzero(sources.kind == kind), np.flatnonzero(targets.kind == kind)
        numbers, first, count = np.unique(sources.number[give], return_index=True, return_counts=True)
        at = np.minimum(np.searchsorted(numbers, targets.number[take]), len(numbers) - 1)
        known = (numbers[at] == targets.number[take]) & (count[at] == 1)
        give, take = give[first[at[known]]], take[known]
        found.append(
            np.stack((sources.track[give], sources.row[give], targets.track[take], targets.row[take]))
        )
    return np.concatenate(found, axis=1)
