"""Reads of JAX arrays that leave no event: NumPy takes the array's memory, and waits for it inside.

On JAX's CPU client `np.asarray(array)` calls no method of the array. Samples show the thread asleep in the call, or on
a CPU: whoever waits for a short time does not sleep, and a large array is copied.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof.model.host.interval_pieces import KINDS
from tpuprof.model.host.samples import READ_BY, HostSamples
from tpuprof.model.host.stacks import called
from tpuprof.model.intervals import EMPTY, Bool, Int64, Spans, union

# Share of the time at a call that makes an array in which the thread sleeps from which all of it is a read (share): a
# call that makes an array of Python's numbers never sleeps. A judgement.
SLEEPS_FROM_SHARE = 0.2
# Length of what samples show of a wait between two calls, beside the longest of the same stretch, from which it is a
# wait of its own (share). Of waits of 30 ms, up to 0.1 ms seemed to lie beyond a call. A judgement: half.
OWN_WAIT_FROM_SHARE = 0.5
_WAIT, _PYTHON = KINDS.index("wait"), KINDS.index("python")


def waits_for_arrays(samples: HostSamples | None) -> Spans:
    """When the training thread waited in NumPy for an array."""
    if samples is None:
        return EMPTY
    chosen = array_waits(samples)
    return union(samples.start[chosen], samples.end[chosen])


def array_waits(samples: HostSamples) -> Bool:
    """Which pieces are waits in a call that makes an array."""
    chosen: Bool = _reading(samples)[samples.stack] & (samples.kind == _WAIT)
    return chosen


def waits_between(spans: Spans, calls: Int64) -> int:
    """How many waits there are: who waits calls nothing, so that one lies between two calls, however long it is.

    Samples are taken now and then, and so a wait seems to begin before the call in front of it, or to last until after
    the next: what is far shorter than the rest of one stretch is no wait of its own.
    """
    edges = np.concatenate(([spans.start[0]], calls, [spans.end[-1]]))
    begin = np.searchsorted(calls, spans.start, "right")
    end = np.searchsorted(calls, spans.end, "left")
    found: set[int] = set()
    for row, (first, last) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        parts = np.diff(np.clip(edges[first : last + 2], spans.start[row], spans.end[row]))
        found.update((first + np.flatnonzero(parts >= OWN_WAIT_FROM_SHARE * parts.max())).tolist())
    return len(found)


def with_whole_reads(samples: HostSamples | None) -> HostSamples | None:
    """The same with all of the time in such a call as a wait, where the thread sleeps for a good part of it."""
    if samples is None:
        return None
    length = samples.end - samples.start
    asleep, awake = (
        np.bincount(samples.stack[chosen] + 1, length[chosen], len(samples.stacks) + 1)
        for chosen in (samples.kind == _WAIT, samples.kind == _PYTHON)
    )
    reads = np.roll(_reading(samples), 1) & (asleep > 0) & (asleep >= SLEEPS_FROM_SHARE * (asleep + awake))
    whole = reads[samples.stack + 1] & (samples.kind == _PYTHON)
    return replace(samples, kind=np.where(whole, _WAIT, samples.kind))


def looks_at_reads(samples: HostSamples) -> Int64:
    """When the thread was looked at and seen in a call that makes an array (ps), in order."""
    found: Int64 = np.sort(samples.taken[_reading(samples)[samples.seen]])
    return found


def _reading(samples: HostSamples) -> Bool:
    """Whether a stack is in a call that makes an array, by row; behind the last for none (-1)."""
    return np.array([*(called(each.user_call) in READ_BY for each in samples.stacks), False], np.bool_)
