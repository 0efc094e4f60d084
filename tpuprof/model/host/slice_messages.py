"""Messages between slices, as the MegaScale runtime notes them on the host that receives them.

It writes one event for each, at its arrival, with the collective, both slices, the bytes, and how long it was on its
way: from the sender's clock to the receiver's, in whole microseconds. XProf's Megascale statistics are made of the same
events (dcn_utils.cc of https://github.com/openxla/xprof).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tpuprof.model.intervals import Int64
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Host, Track
from tpuprof.records import record

RECEIVED = "MegaScale: Communication Transport Receive"
_LABEL, _FROM, _TO = "dcn_label", "dcn_source_slice_id", "dcn_destination_slice_id"
_BYTES, _TIME = "payload_size_bytes", "duration_us"


@record(frozen=True)
class SliceMessages:
    """Sums over the messages of one collective from one slice to another that arrived in steps.

    Of `count` messages with `bytes` together, `timed` with `timed_bytes` were on their way for `total_us`, the slowest
    for `longest_us`. The others arrived, by the clocks of both hosts, no later than they were sent: those disagree.
    """

    collective: str
    source: int
    target: int
    count: int
    bytes: int
    timed: int
    timed_bytes: int
    total_us: int
    longest_us: int

    @property
    def key(self) -> tuple[str, int, int]:
        """What its messages have in common."""
        return self.collective, self.source, self.target


def slice_messages(host: Host, steps: Steps) -> list[SliceMessages]:
    """What one host received from other slices in steps; empty where the runtime noted nothing."""
    if not len(steps) or RECEIVED not in host.event_names:
        return []
    return summed(each for track in host.threads for each in _received(track, steps))


def summed(messages: Iterable[SliceMessages]) -> list[SliceMessages]:
    """The same, one row for each collective and pair of slices, in their order."""
    found: dict[tuple[str, int, int], SliceMessages] = {}
    for each in messages:
        one = found.get(each.key)
        found[each.key] = each if one is None else _both(one, each)
    return [found[key] for key in sorted(found)]


def _both(one: SliceMessages, other: SliceMessages) -> SliceMessages:
    return replace(
        one,
        count=one.count + other.count,
        bytes=one.bytes + other.bytes,
        timed=one.timed + other.timed,
        timed_bytes=one.timed_bytes + other.timed_bytes,
        total_us=one.total_us + other.total_us,
        longest_us=max(one.longest_us, other.longest_us),
    )


def _received(track: Track, steps: Steps) -> Iterable[SliceMessages]:
    names = track.plane.events.names
    rows = np.flatnonzero(np.array([name == RECEIVED for name in names], bool)[track.name_row])
    rows = rows[_in_steps(track.start[rows], steps)]
    if not len(rows):
        return
    stats = track.stats(_LABEL, _FROM, _TO, _BYTES, _TIME)
    labels = track.plane.stat_text(stats, _LABEL, len(track))
    source, target, size, time = (
        track.plane.stat_integers(stats, name, len(track), missing=-1) for name in (_FROM, _TO, _BYTES, _TIME)
    )
    for row in rows.tolist():
        # Without them nobody knows which one it is.
        if not labels[row] or min(source[row], target[row], size[row]) < 0:
            continue
        length, took = int(size[row]), max(int(time[row]), 0)
        timed = took > 0
        yield SliceMessages(
            labels[row], int(source[row]), int(target[row]), 1, length, int(timed), length * timed, took, took
        )


def _in_steps(times: Int64, steps: Steps) -> npt.NDArray[np.bool_]:
    place = np.searchsorted(steps.start, times, side="right") - 1
    within: npt.NDArray[np.bool_] = (place >= 0) & (times <= steps.end[np.maximum(place, 0)])
    return within
