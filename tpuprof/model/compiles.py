"""Every compile in the trace: when, how long, of which graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Host, Track
from tpuprof.model.vocabulary import Vocabulary


@dataclass(frozen=True)
class Compile:
    """One compile. `step` is the row of the step it ran in, None outside any; `graph_hash` empty if not told."""

    step: int | None
    graph_hash: str
    start_ps: int
    duration_ps: int


def find_compiles(host: Host, vocabulary: Vocabulary, steps: Steps) -> list[Compile]:
    """Compiles of one host in time order, from the first of the vocabulary's compile events that occurs."""
    for event in vocabulary.compile_events:
        found = [each for track in host.threads for each in _on_thread(track, event, vocabulary, steps)]
        if found:
            return sorted(found, key=lambda compile_: compile_.start_ps)
    return []


def _on_thread(track: Track, event: str, vocabulary: Vocabulary, steps: Steps) -> list[Compile]:
    names = track.plane.events.names
    wanted = np.array([row for row, name in enumerate(names) if name == event], np.int64)
    rows = np.flatnonzero(np.isin(track.name, wanted))
    if not len(rows):
        return []
    hashes = track.plane.stat_text(
        track.stats(vocabulary.compile_hash_stat), vocabulary.compile_hash_stat, len(track)
    )
    return [
        Compile(
            step=_step_at(steps, int(track.start[row])),
            graph_hash=hashes[int(row)],
            start_ps=int(track.start[row]),
            duration_ps=int(track.end[row] - track.start[row]),
        )
        for row in rows
    ]


def _step_at(steps: Steps, time: int) -> int | None:
    row = int(np.searchsorted(steps.start, time, "right")) - 1
    return row if row >= 0 and time < int(steps.end[row]) else None
