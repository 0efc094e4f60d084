"""Finds events by name in all lanes of a host, drawn or not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuprof.timeline.lanes import LaneInfo


@dataclass(frozen=True)
class FoundEvent:
    """One event: its lane, its row in that, its name and detail (program and source line), start and duration in ps."""

    lane: LaneInfo
    depth: int
    name: str
    detail: str
    start: int
    duration: int


def find_events(lanes: list[LaneInfo], text: str, most: int) -> tuple[list[FoundEvent], int]:
    """Events whose name holds `text` in any case: the longest first, `most` of them, and how many there are in all.

    Events nested deeper than a lane's rows go are not looked at.
    """
    wanted, found, count = text.casefold(), [], 0
    for info in lanes:
        lane = info.read()
        labels = [row for row, name in enumerate(lane.names) if wanted in name.casefold()]
        if not labels:
            continue
        for depth, row in enumerate(lane.rows):
            events = row.levels[0]
            chosen = np.flatnonzero(np.isin(events.label, labels))
            count += len(chosen)
            longest = chosen[np.argsort(-events.busy[chosen], kind="stable")][:most]
            found += [
                FoundEvent(
                    info,
                    depth,
                    lane.names[int(events.label[at])],
                    lane.details[int(events.label[at])],
                    int(events.start[at]),
                    int(events.busy[at]),
                )
                for at in longest.tolist()
            ]
    found.sort(key=lambda each: (-each.duration, each.start))
    return found[:most], count
