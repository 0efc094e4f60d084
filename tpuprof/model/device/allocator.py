"""What the runtime's allocator says of each device's memory: its own events on host threads.

It counts the buffers that the program holds (inputs, results, weights), not the temporaries of a running program: those
are in the compiler's buffer assignment (memory.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tpuprof.model.intervals import Int64, ascending_distinct
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Host, Track

_FACTS = ("index_on_host", "bytes_allocated", "bytes_available")
_EVENTS = ("MemoryAllocation", "MemoryDeallocation")


class Allocated(NamedTuple):
    """One device over the capture: events, and bytes in use at most and at the end, and free at least.

    `at_steps` is what is in use at the end of each step, from the first that ends after an event.
    """

    device: int
    events: int
    most: int
    last: int
    least_free: int
    at_steps: tuple[int, ...] = ()


class AllocatorEvents(NamedTuple):
    """The allocator's events in time order: when (ps), of which device, bytes in use and free after it.

    Free bytes are -1 where the event does not state them.
    """

    time: Int64
    device: Int64
    used: Int64
    free: Int64


def allocator_events(host: Host) -> AllocatorEvents | None:
    """The allocator's events of all threads, None where the trace has none."""
    rows = [found for track in host.threads if (found := _rows(track)) is not None]
    if not rows:
        return None
    columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return AllocatorEvents(*(column[order] for column in columns))


def allocations(host: Host, steps: Steps) -> list[Allocated]:
    """One row per device that the allocator names, in their order; none where the trace has no such events."""
    events = allocator_events(host)
    if events is None:
        return []
    time, device, used, free = events
    return [
        _allocated(int(number), time[rows], used[rows], free[rows], steps)
        for number in ascending_distinct(device).tolist()
        for rows in (np.flatnonzero(device == number),)
    ]


def _allocated(number: int, time: Int64, used: Int64, free: Int64, steps: Steps) -> Allocated:
    before = np.searchsorted(time, steps.end, "right") - 1
    at_steps = tuple(used[before[before >= 0]].tolist())
    return Allocated(number, len(time), int(used.max()), int(used[-1]), int(free.min()), at_steps)


def _rows(track: Track) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    names = [row for row, name in enumerate(track.plane.events.names) if name in _EVENTS]
    chosen = np.flatnonzero(np.isin(track.name_row, names)) if names else np.empty(0, np.int64)
    if not len(chosen):
        return None
    stats, count = track.stats(*_FACTS), len(track)
    columns = [track.plane.stat_integers(stats, name, count, -1) for name in _FACTS]
    told = chosen[(columns[0][chosen] >= 0) & (columns[1][chosen] >= 0)]
    if not len(told):
        return None
    return track.start[told], columns[0][told], columns[1][told], columns[2][told]
