"""Tables of what hosts did: events of threads, reads, the runtime's allocator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.model.device.allocator import allocator_events
from tpuprof.model.host_run import HostRun
from tpuprof.model.intervals import Int64
from tpuprof.model.timeline import Track
from tpuprof.tables.columns import arrow_table, coded, joined, known_only, rows_table, step_of
from tpuprof.timeline.links import Links

if TYPE_CHECKING:
    from tpuprof.tables.source import Source


def host_events(source: Source) -> Any:
    """One row per event of a thread, thread by thread."""
    tables = [_thread_events(host, track) for host in source.run.hosts for track in source.threads(host.name)]
    return joined("host_events", tables)


def hand_overs(source: Source) -> Any:
    """One row per hand-over, in the order of the threads that take the work."""
    tables = []
    for host in source.run.hosts:
        links = Links(source.timeline(host.name))
        for (source_at, target_at), rows in links.by_tracks():
            start = source_at.start[rows[0]]
            columns = {
                "from_thread": source_at.label or "unnamed",
                "from_event": coded(source_at.name_row[rows[0]], source_at.plane.events.names),
                "to_plane": target_at.plane.name,
                "to_thread": target_at.label or "unnamed",
                "to_event": coded(target_at.name_row[rows[1]], target_at.plane.events.names),
                "step": step_of(host.steps, start),
                "start_ps": start,
                "to_start_ps": target_at.start[rows[1]],
                "to_duration_ps": target_at.end[rows[1]] - target_at.start[rows[1]],
            }
            tables.append(arrow_table("hand_overs", {"host": host.name, **columns}))
    return joined("hand_overs", tables)


def host_reads(source: Source) -> Any:
    """One row per kind of read and line."""
    return rows_table(
        "host_reads",
        [
            (host.name, each.call, each.source, each.occurrences, each.blocked_ps)
            for host in source.run.hosts
            for each in host.host_reads
        ],
    )


def memory(source: Source) -> Any:
    """One row per event of the allocator, in time order."""
    tables = []
    for host in source.run.hosts:
        events = allocator_events(source.timeline(host.name))
        if events is None:
            continue
        columns = {
            "device_index": events.device,
            "step": step_of(host.steps, events.time),
            "start_ps": events.time,
            "in_use_bytes": events.used,
            "free_bytes": known_only(events.free, events.free >= 0),
        }
        tables.append(arrow_table("memory", {"host": host.name, **columns}))
    return joined("memory", tables)


def _thread_events(host: HostRun, track: Track) -> Any:
    return arrow_table(
        "host_events",
        {
            "host": host.name,
            "thread": track.label or "unnamed",
            "thread_id": np.full(len(track), track.line.id, np.int64),
            "event": coded(track.name_row, track.plane.events.names),
            "step": step_of(host.steps, track.start),
            "start_ps": track.start,
            "duration_ps": track.end - track.start,
            "self_ps": _self_ps(track),
        },
    )


def _self_ps(track: Track) -> Int64:
    """Each event's time without the events directly inside it."""
    spent = track.end - track.start
    inside = np.zeros(len(track), np.int64)
    nested = track.parent >= 0
    np.add.at(inside, track.parent[nested], spent[nested])
    own: Int64 = np.maximum(spent - inside, 0)
    return own
