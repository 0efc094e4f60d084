"""What samples take for a wait for an array, though the device is done: the thread does something else by then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tpuprof.model.host.activity import HostActivity
from tpuprof.model.host.array_waits import looks_at_reads, waits_for_arrays
from tpuprof.model.host.samples import HostSamples
from tpuprof.model.host.vocabulary import Activity
from tpuprof.model.intervals import EMPTY, Spans, intersect, merge, subtract
from tpuprof.parts import HOST_PREFIX

_PYTHON = HOST_PREFIX + "python"


def without_idle_waits(activity: HostActivity, devices: Sequence[Spans]) -> HostActivity:
    """The same with the ends of waits for arrays as Python; `devices` is when each device works.

    Where nobody looked it is unknown when a wait ended, and what follows is taken for a part of it. A read of an array
    that is computed takes no time, so it ended when the device did. Where a look sees the thread in it later than that,
    it had not.
    """
    reading = activity.spans(Activity.DEVICE_TO_HOST_SYNC)
    waits = intersect(waits_for_arrays(activity.samples), reading) if activity.framework == "jax" else None
    if waits is None or not len(waits.start) or not devices:
        return activity
    idle = subtract(waits, merge(*devices))
    of = np.maximum(np.searchsorted(waits.start, idle.start, "right") - 1, 0)
    ends = (idle.end == waits.end[of]) & (idle.start > waits.start[of])
    after = _unseen(activity.samples, Spans(idle.start[ends], idle.end[ends]))
    by_activity = {
        **activity.by_activity,
        Activity.DEVICE_TO_HOST_SYNC: subtract(reading, after),
        Activity.HOST_NAMED: merge(activity.spans(Activity.HOST_NAMED), after),
    }
    named = activity.named
    python = merge(named[_PYTHON], after) if _PYTHON in named else after
    return replace(activity, by_activity=by_activity, named={**named, _PYTHON: python})


def _unseen(samples: HostSamples | None, ends: Spans) -> Spans:
    """What of such ends is behind the last look that sees the thread in a read."""
    looks = looks_at_reads(samples) if samples is not None else EMPTY.start
    if not len(looks):
        return ends
    last = looks[np.maximum(np.searchsorted(looks, ends.end, "right") - 1, 0)]
    start = np.where((last > ends.start) & (last <= ends.end), last, ends.start)
    left = start < ends.end
    return Spans(start[left], ends.end[left])
