"""What the runtime's allocator says of each device's memory: its own events on host threads.

It counts the buffers that the program holds (inputs, results, weights), not the temporaries of a running program: those
are in the compiler's buffer assignment (memory.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tpuprof.model.intervals import ascending_distinct
from tpuprof.model.timeline import Host, Track

_FACTS = ("index_on_host", "bytes_allocated", "bytes_available")
_EVENTS = ("MemoryAllocation", "MemoryDeallocation")


class Allocated(NamedTuple):
    """One device over the capture: events, and bytes in use at most and at the end, and free at least."""

    device: int
    events: int
    most: int
    last: int
    least_free: int


def allocations(host: Host) -> list[Allocated]:
    """One row per device that the allocator names, in their order; none where the trace has no such events."""
    rows = [found for track in host.threads if (found := _rows(track)) is not None]
    if not rows:
        return []
    time, device, used, free = (np.concatenate(column) for column in zip(*rows, strict=True))
    order = np.argsort(time, kind="stable")
    device, used, free = device[order], used[order], free[order]
    return [
        Allocated(
            int(number),
            int((device == number).sum()),
            int(used[device == number].max()),
            int(used[device == number][-1]),
            int(free[device == number].min()),
        )
        for number in ascending_distinct(device).tolist()
    ]


def _rows(track: Track) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    names = [row for row, name in enumerate(track.plane.events.names) if name in _EVENTS]
    chosen = np.flatnonzero(np.isin(track.name, names)) if names else np.empty(0, np.int64)
    if not len(chosen):
        return None
    stats, count = track.stats(*_FACTS), len(track)
    columns = [track.plane.stat_integers(stats, name, count, -1) for name in _FACTS]
    told = chosen[(columns[0][chosen] >= 0) & (columns[1][chosen] >= 0)]
    if not len(told):
        return None
    return track.start[told], columns[0][told], columns[1][told], columns[2][told]
