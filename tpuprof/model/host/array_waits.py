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
