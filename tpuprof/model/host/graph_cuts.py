"""Who cuts graphs inside a step: lines that sync, reads of values, fallbacks to the CPU."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tpuprof.model.host.vocabulary import Vocabulary
from tpuprof.model.intervals import inherit
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Track
from tpuprof.own_events import GRAPH_CUT, HOST_READ
from tpuprof.records import record

# A cut that neither a sync nor a read of a value explains: torch_xla runs an op on the CPU, or a library reads.
OTHER = "other"


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
        counts[(calls[row], sources[row]) if row >= 0 else (OTHER, "")] += 1
    return [GraphCut(call, source, count) for (call, source), count in counts.most_common()]


def cuts_with_causes(driver: Track, vocabulary: Vocabulary, steps: Steps) -> list[int]:
    """For each graph handed over inside steps the row of the event that tells its line, -1 where none does."""
    if not len(steps) or not vocabulary.handed_over.exact:
        return []
    names = driver.plane.events.names
    rows = np.flatnonzero(np.isin(driver.name_row, vocabulary.handed_over.rows(names)))
    at = np.searchsorted(steps.start, driver.start[rows], "right") - 1
    rows = rows[(at >= 0) & (driver.start[rows] < steps.end[np.maximum(at, 0)])]
    causes = [row for row, name in enumerate(names) if name in (GRAPH_CUT, HOST_READ)]
    own = np.where(np.isin(driver.name_row, np.array(causes, np.int64)), np.arange(len(driver)), -1)
    found: list[int] = inherit(own, driver.parent)[rows].tolist()
    return found
