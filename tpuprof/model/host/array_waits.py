"""Reads of JAX arrays that leave no event: NumPy takes the array's memory, and waits for it inside.

On JAX's CPU client `np.asarray(array)` calls no method of the array. Samples show the thread asleep in the call.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.host.interval_pieces import KINDS
from tpuprof.model.host.samples import READ_BY, HostSamples
from tpuprof.model.host.stacks import called
from tpuprof.model.intervals import EMPTY, Bool, Spans, union


def waits_for_arrays(samples: HostSamples | None) -> Spans:
    """When the training thread waited in NumPy for an array."""
    if samples is None:
        return EMPTY
    chosen = array_waits(samples)
    return union(samples.start[chosen], samples.end[chosen])


def array_waits(samples: HostSamples) -> Bool:
    """Which pieces are waits in a call that makes an array."""
    reads = [called(each.user_call) in READ_BY for each in samples.stacks]
    of_stack = np.array([*reads, False], np.bool_)
    chosen: Bool = of_stack[samples.stack] & (samples.kind == KINDS.index("wait"))
    return chosen
