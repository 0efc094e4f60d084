"""Which thread of a host trains, and which ones run its backward passes."""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.cpu import RUNTIME_THREADS
from tpuprof.model.host.vocabulary import Vocabulary
from tpuprof.model.intervals import Int64
from tpuprof.model.timeline import Host, Track, by_plane

AUTOGRAD_THREAD = "pt_autograd"
_MAIN_THREAD_PREFIXES = ("python", "main")


def find_driver(host: Host, vocabulary: Vocabulary) -> Track | None:
    """The thread that trains: the one with most step markers or graph cuts, else the main Python thread."""
    best, most = None, (0, False, 0)
    cut_names = by_plane(host.threads, lambda plane: vocabulary.driver.rows(plane.events.names))
    for track in host.threads:
        markers = len(track.line.read_stats(track.plane.stat_keys(("_r",))))
        cuts = _count(track, cut_names[id(track.plane)])
        # A step marker outweighs any number of cuts: a loader thread may cut graphs, but not mark steps. On threads of
        # XLA's own the program's callbacks run, whose calls are part of a step.
        weight = (markers, not track.label.startswith(RUNTIME_THREADS), cuts)
        if (markers or cuts) and weight > most:
            best, most = track, weight
    if best is None:
        best = _most_ops(host, vocabulary)
    if best is None:
        named = [track for track in host.threads if track.label.startswith(_MAIN_THREAD_PREFIXES)]
        best = max(named, key=len, default=None)
    return best


def autograd_threads(host: Host) -> list[Track]:
    """The threads on which PyTorch runs backward passes."""
    return [track for track in host.threads if is_autograd(track)]


def is_autograd(track: Track) -> bool:
    """Whether PyTorch runs backward passes on that thread."""
    return track.label.startswith(AUTOGRAD_THREAD)


def _most_ops(host: Host, vocabulary: Vocabulary) -> Track | None:
    """The thread that called most ops, autograd's own threads left out; None where none did."""
    rows = by_plane(host.threads, lambda plane: vocabulary.driver_ops.rows(plane.events.names))
    counts = [
        (_count(track, rows[id(track.plane)]), track) for track in host.threads if not is_autograd(track)
    ]
    most, track = max(counts, key=lambda each: each[0], default=(0, None))
    return track if most else None


def _count(track: Track, name_rows: Int64) -> int:
    return int(np.isin(track.name_row, name_rows).sum()) if len(name_rows) else 0
