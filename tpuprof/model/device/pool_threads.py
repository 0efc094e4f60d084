"""When threads of XLA's CPU client work beside a callback of a program, which keeps one of them.

An op hands its parts to a pool of threads. A part that comes to the thread of a callback waits until the callback is
over, and its op ends so late though nothing runs. When a thread begins and ends a part is in events of its own.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.intervals import Spans, merge, subtract, union
from tpuprof.model.timeline import Track

BEGINS, ENDS = "ThreadpoolListener::StartRegion", "ThreadpoolListener::StopRegion"


def working_beside(threads: list[tuple[Track, Spans, Spans]]) -> Spans | None:
    """When any thread works on something else than a callback, None where no thread tells when it works.

    Of each thread: the track, when its ops' own events were open, and when callbacks ran on it.
    """
    if not any(len(track.named(BEGINS)) for track, _, _ in threads):
        return None
    return merge(*(subtract(merge(at_work(track), ops), callbacks) for track, ops, callbacks in threads))


def at_work(track: Track) -> Spans:
    """When a thread worked on parts of ops: all its time but from an end to the next begin.

    Parts may lie in one another, so that an end alone does not mean that the thread rests.
    """
    begins, ends = track.named(BEGINS), track.named(ENDS)
    if not len(begins) and not len(ends):
        return union(track.start[:0], track.end[:0])
    rows = np.concatenate((begins, ends))
    begin = np.arange(len(rows)) < len(begins)
    order = np.lexsort((rows, track.start[rows]))
    times, begin = track.start[rows][order], begin[order]
    works = np.append(begin[:-1] | ~begin[1:], False)
    first, last = int(track.start.min()), int(track.end.max())
    start, end = times[works], np.append(times[1:], last)[works]
    if not begin[0]:
        start, end = np.append(first, start), np.append(times[0], end)
    if begin[-1]:
        start, end = np.append(start, times[-1]), np.append(end, last)
    return union(start, end)
