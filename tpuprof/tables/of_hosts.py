"""Tables of what hosts did: events of threads, reads, the runtime's allocator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.model.device.allocator import allocator_events
from tpuprof.model.host_run import HostRun
from tpuprof.model.intervals import Int64
from tpuprof.model.timeline import Track
from tpuprof.tables.columns import arrow_table, coded, joined, known_only, rows_table, step_of

if TYPE_CHECKING:
    from tpuprof.tables.source import Source


def host_events(source: Source) -> Any:
    """One row per event of a thread, thread by thread."""
    tables = [_thread_events(host, track) for host in source.run.hosts for track in source.threads(host.name)]
    return joined("host_events", tables)


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
            "event": coded(track.name, track.plane.events.names),
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
