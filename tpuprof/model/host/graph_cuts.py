"""Who cuts graphs inside a step: lines that sync, reads of values, fallbacks to the CPU."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tpuprof.model.host.vocabulary import Vocabulary
from tpuprof.model.intervals import Int64, inherit
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Track
from tpuprof.own_events import GRAPH_CUT, HOST_READ
from tpuprof.records import record
from tpuprof.report.labels import OTHER_CUT


@record(frozen=True)
class GraphCut:
    """Cuts from one line: `call` is sync, the method that reads a value, or other; `source` empty where unknown."""

    call: str
    source: str
    occurrences: int


def graph_cuts(driver: Track | None, vocabulary: Vocabulary, steps: Steps) -> list[GraphCut]:
    """Cuts that handed a graph over, of the training thread inside steps, the most frequent first.

    Lines are known in captures by tpuprof, which puts syncs and reads on the timeline with their lines.
    """
    if driver is None:
        return []
    stats = driver.stats("call", "source")
    calls = driver.plane.stat_text(stats, "call", len(driver))
    sources = driver.plane.stat_text(stats, "source", len(driver))
    counts: Counter[tuple[str, str]] = Counter()
    for row in cuts_with_causes(driver, vocabulary, steps):
        counts[(calls[row], sources[row]) if row >= 0 else (OTHER_CUT, "")] += 1
    return [GraphCut(call, source, count) for (call, source), count in counts.most_common()]


def cuts_with_causes(driver: Track, vocabulary: Vocabulary, steps: Steps) -> list[int]:
    """For each graph handed over inside steps the row of the event that tells its line, -1 where none does."""
    found: list[int] = _causes(driver, (GRAPH_CUT, HOST_READ))[
        _handed_over(driver, vocabulary, steps)
    ].tolist()
    return found


def handed_over_unasked(thread: Track, vocabulary: Vocabulary, steps: Steps) -> Int64:
    """When a thread began to hand over each graph inside steps that no sync of the program cuts (ps), in order."""
    rows = _handed_over(thread, vocabulary, steps)
    begins: Int64 = np.sort(thread.start[rows[_causes(thread, (GRAPH_CUT,))[rows] < 0]])
    return begins


def _handed_over(thread: Track, vocabulary: Vocabulary, steps: Steps) -> Int64:
    """Events of a thread that hand a graph over inside steps (rows)."""
    if not len(steps) or not vocabulary.handed_over.exact:
        return np.empty(0, np.int64)
    rows = np.flatnonzero(np.isin(thread.name_row, vocabulary.handed_over.rows(thread.plane.events.names)))
    at = np.searchsorted(steps.start, thread.start[rows], "right") - 1
    inside: Int64 = rows[(at >= 0) & (thread.start[rows] < steps.end[np.maximum(at, 0)])]
    return inside


def _causes(thread: Track, wanted: tuple[str, ...]) -> Int64:
    """For each event of a thread the event of such a name that it lies in, or is (row); -1 where there is none."""
    names = [row for row, name in enumerate(thread.plane.events.names) if name in wanted]
    own = np.where(np.isin(thread.name_row, np.array(names, np.int64)), np.arange(len(thread)), -1)
    return inherit(own, thread.parent)
