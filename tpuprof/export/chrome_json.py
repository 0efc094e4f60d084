"""Writes a window of a host's trace as gzipped Chrome JSON, which Perfetto's UI and chrome://tracing open.

Times are microseconds from the trace's origin, as that format wants; names are written as they are.
"""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.units import PS_PER_US

if TYPE_CHECKING:
    from tpuprof.model.timeline import Host, Track

# Events written at most: the viewers load some hundred thousand quickly. The longest are kept.
MAX_EVENTS = 300_000
_HOST_PROCESS = 1


def chrome_json(host: Host, start: int, end: int, most: int = MAX_EVENTS) -> tuple[bytes, int]:
    """The events that touch [start, end) ps, and how many were left out because they were too many."""
    tracks = [(_HOST_PROCESS, f"{host.name} host", track) for track in host.threads]
    tracks += [
        (_HOST_PROCESS + 1 + number, host.device_planes[number].name, track)
        for number, queue in sorted(host.devices.items())
        for track in queue
    ]
    rows = [np.flatnonzero((t.start < end) & (t.end >= start)) for _, _, t in tracks]
    shortest = _shortest_kept(
        [t.end[r] - t.start[r] for (_, _, t), r in zip(tracks, rows, strict=True)], most
    )
    written: list[dict[str, Any]] = []
    for thread, ((process, title, track), chosen) in enumerate(zip(tracks, rows, strict=True), 1):
        kept = chosen[track.end[chosen] - track.start[chosen] >= shortest]
        if len(kept):
            written += _names(process, title, thread, track.label)
            written += _events(process, thread, track, kept)
    left_out = sum(map(len, rows)) - sum(each["ph"] == "X" for each in written)
    data = json.dumps({"displayTimeUnit": "ms", "traceEvents": written}, separators=(",", ":"))
    return gzip.compress(data.encode(), 6), left_out


def _shortest_kept(durations: list[Any], most: int) -> int:
    """The duration (ps) from which events are kept, so that at most `most` are."""
    every = np.concatenate(durations) if durations else np.empty(0, np.int64)
    if len(every) <= most:
        return 0
    longest_left_out = len(every) - most - 1
    return int(np.partition(every, longest_left_out)[longest_left_out]) + 1


def _names(process: int, title: str, thread: int, label: str) -> list[dict[str, Any]]:
    return [
        {"ph": "M", "pid": process, "tid": thread, "name": "process_name", "args": {"name": title}},
        {"ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": {"name": label}},
    ]


def _events(process: int, thread: int, track: Track, rows: Any) -> list[dict[str, Any]]:
    names = track.plane.events.names
    return [
        {
            "ph": "X",
            "pid": process,
            "tid": thread,
            "name": names[name] if name >= 0 else "",
            "ts": ts,
            "dur": dur,
        }
        for name, ts, dur in zip(
            track.name_row[rows].tolist(),
            (track.start[rows] / PS_PER_US).tolist(),
            ((track.end[rows] - track.start[rows]) / PS_PER_US).tolist(),
            strict=True,
        )
    ]
