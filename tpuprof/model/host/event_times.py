"""When the training threads were in events that rules ask for by what they mean."""

from __future__ import annotations

import numpy as np

from tpuprof.model.host.driver import AUTOGRAD_THREAD
from tpuprof.model.host.vocabulary import Vocabulary
from tpuprof.model.intervals import Spans, merge, union
from tpuprof.model.timeline import Host, Track
from tpuprof.safe_text import FROM_SAFE

# The named event of calls of functions that torch.compile made.
COMPILED_REGION = "compiled_region"


def find_named_events(host: Host, vocabulary: Vocabulary, driver: Track | None) -> dict[str, Spans]:
    """Spans of each named event of the vocabulary, on the training thread and autograd's; empty ones are left out."""
    threads = [track for track in host.threads if track is driver or track.label.startswith(AUTOGRAD_THREAD)]
    found = {}
    for name, names in vocabulary.named_events:
        spans = []
        for track in threads:
            chosen = np.isin(track.name_row, names.rows(track.plane.events.names))
            spans.append(union(track.start[chosen], track.end[chosen]))
        merged = merge(*spans)
        if len(merged.start):
            found[name] = merged
    return found


def event_texts(host: Host, event: str, stat: str) -> list[tuple[int, str]]:
    """When events of that name began on any thread (ps), and the text each carries, in time order."""
    found = []
    for track in host.threads:
        rows = track.named(event)
        if len(rows):
            texts = track.plane.stat_text(track.stats(stat), stat, len(track))
            found += [(int(track.start[row]), texts[row].translate(FROM_SAFE)) for row in rows.tolist()]
    return sorted((at, text) for at, text in found if text)
