"""What the host's time in `dispatch` is made of: waiting for work that has not begun, and the events that take most."""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.host.activity import HostActivity
from tpuprof.model.host.vocabulary import Activity, Vocabulary
from tpuprof.model.intervals import EMPTY, Spans, intersect, merge, subtract, union
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Host, Track
from tpuprof.records import record

# Share of the time in dispatch from which an event is worth naming: of those, the one inside the others says most.
LARGE_FROM_SHARE = 0.25


@record(frozen=True)
class HandingOver:
    """Sums over the steps (ps), while all devices idle.

    `total_ps` is the training thread's time in `dispatch`; `waiting_ps` what of it waits for the device. `longest` is
    the event that takes `longest_ps` of it on one thread, empty where none takes a good part.
    """

    total_ps: int
    waiting_ps: int
    longest: str = ""
    longest_ps: int = 0

    @property
    def waits(self) -> bool:
        """Whether a good part of the time is a wait."""
        return self.waiting_ps >= LARGE_FROM_SHARE * self.total_ps


def handing_over(
    host: Host,
    vocabulary: Vocabulary,
    activity: HostActivity,
    steps: Steps,
    devices: list[DeviceActivity],
) -> HandingOver | None:
    """The time in `dispatch` of one host; None where there is none."""
    busy = merge(*(device.busy for device in devices)) if devices else EMPTY
    idle = subtract(union(steps.start, steps.end), busy)
    waiting = intersect(idle, activity.spans(Activity.DEVICE_WAIT))
    spans = merge(waiting, intersect(idle, activity.spans(Activity.DISPATCH)))
    if not spans.total:
        return None
    times: dict[str, int] = {}
    for track in host.threads:
        for name, time in _large(track, vocabulary, spans):
            times[name] = max(times.get(name, 0), time)
    longest = min(times, key=lambda name: times[name], default="")
    return HandingOver(spans.total, waiting.total, longest, times.get(longest, 0))


def _large(track: Track, vocabulary: Vocabulary, spans: Spans) -> list[tuple[str, int]]:
    """Names of a thread's events that take a good part of these spans, and how much (ps)."""
    names = track.plane.events.names
    known = track.name_row >= 0
    lengths = np.bincount(
        track.name_row[known], weights=(track.end - track.start)[known], minlength=len(names)
    )
    least = LARGE_FROM_SHARE * spans.total
    found = []
    for row in np.flatnonzero(lengths >= least).tolist():
        name = names[row]
        # The call itself, and the wait for the device, are what dispatch is.
        if vocabulary.calls.matches(name) or vocabulary.activity(name) is Activity.DEVICE_WAIT:
            continue
        chosen = track.name_row == row
        time = intersect(union(track.start[chosen], track.end[chosen]), spans).total
        if time >= least:
            found.append((name, time))
    return found
