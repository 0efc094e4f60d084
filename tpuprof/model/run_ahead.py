"""A host that runs ahead of its device: which steps wait for the work of the steps before, and how far ahead it gets.

Such a host hands programs over for many steps, and then waits for all of them in one call: that step is no slow one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.intervals import Int64, Spans, covered
from tpuprof.model.median import median
from tpuprof.model.steps import Steps
from tpuprof.model.steps.phase import RUN_UP, Phase
from tpuprof.records import record
from tpuprof.units import counted

Float64 = npt.NDArray[np.float64]

# How much the queue of programs grows or shrinks within a capture from which the host's steps say nothing of how long
# a step takes later (steps): a steady queue varies by one, as a program ends just before a step's end or just after.
AHEAD_FROM_STEPS = 2
# How many steps the queue holds when it is full, from which those that filled it are left out (steps). XLA's CPU client
# lets 32 programs wait; fewer steps change the mean of a capture by less than steps vary. A judgement.
RUN_UP_FROM_STEPS = 4
# Steps that must be left (steps): as for outliers.
MIN_STEPS = 5


@record(frozen=True)
class RunAhead:
    """`earlier_ps` is the device's time in each step for programs that were handed over in steps before.

    `varies` says whether the queue of programs grew or shrank by steps: times of the host's steps have no trend then
    that anybody would feel.
    """

    earlier_ps: Int64
    varies: bool


@record(frozen=True)
class _Queue:
    """Programs that the host hands over in each step, and those that end in it, both in steps."""

    given: Float64
    done: Float64

    @property
    def length(self) -> Float64:
        """How much longer the queue is after each step than before the first one (steps)."""
        found: Float64 = np.cumsum(self.given - self.done)
        return found


def run_ahead(steps: Steps, devices: list[DeviceActivity], dispatching: Spans) -> RunAhead | None:
    """What a host's queue of programs did in its steps; None where the trace does not show it, or the device paces."""
    queue = _queue(steps, devices, dispatching)
    if queue is None:
        return None
    busy = covered(_busiest(devices).busy, steps.start, steps.end)
    earlier = np.maximum(queue.done - queue.given, 0.0) / np.maximum(queue.done, 1.0) * busy
    varies = np.ptp(np.append(0.0, queue.length)) >= AHEAD_FROM_STEPS
    return RunAhead(earlier.astype(np.int64), bool(varies))


def without_run_up(steps: Steps, devices: list[DeviceActivity], dispatching: Spans) -> Steps:
    """The steps without those in which the queue only fills: it is empty where a recording begins, and full later.

    They take the host no time, and the device none of its own: with them the mean step would be too short.
    """
    queue = _queue(steps, devices, dispatching)
    if queue is None:
        return steps
    length = queue.length
    full = float(np.median(length[len(length) // 2 :]))
    first = int(np.argmax(length > full - 1))
    kept = slice(first + 1, None)
    if full < RUN_UP_FROM_STEPS or len(length[kept]) < MIN_STEPS or np.ptp(length[first:]) > AHEAD_FROM_STEPS:
        return steps
    until = int(steps.start[first + 1])
    left_out = counted(first + 1, "step")
    phase = Phase(
        RUN_UP,
        int(steps.start[0]),
        until,
        first + 1,
        f"the host handed {left_out} over before the queue of programs was full",
        int(steps.number[first + 1]),
    )
    return replace(
        steps,
        number=steps.number[kept],
        start=steps.start[kept],
        end=steps.end[kept],
        phases=(phase, *(each for each in steps.phases if each.start >= until)),
    )


def _queue(steps: Steps, devices: list[DeviceActivity], dispatching: Spans) -> _Queue | None:
    if not devices or not len(steps) or not steps.source.host_paced:
        return None
    given = _inside(dispatching.start, steps)
    done = _inside(np.sort(_busiest(devices).programs.end), steps)
    # A call may be several programs, as on several devices. A step in which none ends says nothing of how many.
    usual = median(given), median(done)
    of_one = usual if all(usual) else (given.mean(), done.mean())
    return _Queue(given / of_one[0], done / of_one[1]) if all(of_one) else None


def _busiest(devices: list[DeviceActivity]) -> DeviceActivity:
    return max(devices, key=lambda each: each.busy.total)


def _inside(times: Int64, steps: Steps) -> Int64:
    """How many of the times, in order, each step holds."""
    found: Int64 = np.searchsorted(times, steps.end, "left") - np.searchsorted(times, steps.start, "left")
    return found
