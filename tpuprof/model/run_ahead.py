"""A host that runs ahead of its device: which steps wait for the work of the steps before, and how far ahead it gets.

Such a host hands programs over for many steps, and then waits for all of them in one call: that step is no slow one.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.intervals import Int64, Spans, covered
from tpuprof.model.steps import Steps
from tpuprof.records import record

# How much the queue of programs grows or shrinks within a capture from which the host's steps say nothing of how long
# a step takes later (steps): a steady queue varies by one, as a program ends just before a step's end or just after.
AHEAD_FROM_STEPS = 2


@record(frozen=True)
class RunAhead:
    """`earlier_ps` is the device's time in each step for programs that were handed over in steps before.

    `varies` says whether the queue of programs grew or shrank by steps: times of the host's steps have no trend then
    that anybody would feel.
    """

    earlier_ps: Int64
    varies: bool


def run_ahead(steps: Steps, devices: list[DeviceActivity], dispatching: Spans) -> RunAhead | None:
    """What a host's queue of programs did in its steps; None where the trace does not show it, or the device paces."""
    device = max(devices, key=lambda each: each.busy.total, default=None)
    handed_over = _inside(dispatching.start, steps)
    ended = _inside(np.sort(device.programs.end), steps) if device is not None else np.zeros(len(steps))
    if device is None or not steps.source.host_paced or not handed_over.sum() or not ended.sum():
        return None
    # A call may be several programs, as on several devices: both are counted in steps.
    done, given = ended / ended.mean(), handed_over / handed_over.mean()
    earlier = (
        np.maximum(done - given, 0.0) / np.maximum(done, 1.0) * covered(device.busy, steps.start, steps.end)
    )
    queue = np.append(0.0, np.cumsum(given - done))
    return RunAhead(earlier.astype(np.int64), bool(np.ptp(queue) >= AHEAD_FROM_STEPS))


def _inside(times: Int64, steps: Steps) -> Int64:
    """How many of the times, in order, each step holds."""
    found: Int64 = np.searchsorted(times, steps.end, "left") - np.searchsorted(times, steps.start, "left")
    return found
