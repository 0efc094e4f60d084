"""A host that runs ahead of its device: which steps wait for the work of the steps before, and how far ahead it gets.

Such a host hands programs over for many steps, and then waits for all of them in one call: that step is no slow one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.intervals import Int64, Spans, contains, covered
from tpuprof.model.median import median
from tpuprof.model.steadiness import MIN_STEPS
from tpuprof.model.steps import Steps
from tpuprof.model.steps.phase import RUN_AHEAD, RUN_UP, LeftOut
from tpuprof.model.steps.table import WHOLE_FROM_SHARE
from tpuprof.records import record
from tpuprof.units import counted

Float64 = npt.NDArray[np.float64]

# How much the queue of programs grows or shrinks within a capture from which the host's steps say nothing of how long
# a step takes later (steps): a steady queue varies by one, as a program ends just before a step's end or just after.
AHEAD_FROM_STEPS = 2
# How much longer the queue is after the steps at one end of a capture from which they are left out (steps). XLA's CPU
# client lets 32 programs wait. A judgement; of fewer steps, those that are clearly shorter are left out.
RUN_UP_FROM_STEPS = 4
# How much the queue grows per step behind the last wait (steps): by as much as the device is slower than the host. What
# is counted wrong in one step of ten, as a small program that leaves no event, grows by less. A judgement.
GROWS_FROM = 0.25
# Steps behind the one that fills the queue from which they stand for all (steps), and how long each must take as a
# multiple of the middle one before (ratio). One may have waited for something else; where the device is slower by less
# than that, the mean of all is off by less than that. Judgements: 2 of 34 steps were so, with 27 times the time.
FULL_FROM_STEPS = 2
FULL_FROM = 5.0
# Share of the steps with a full queue in which the device works, where it does not just as they begin. Gaps between two
# programs of 40 to 67 ms, with results of 64 MiB, were 21 to 34 ms long. A judgement: half.
WORKS_FROM_SHARE = 0.5
# And how much longer steps take then than those that fill the queue (ratio). A judgement.
SLOWER_ONCE_FULL = 2.0
# How far the programs that end in all steps may be from the calls that hand some over for each call to be one program
# (ratio). A queue that is longer at one end of a capture makes a difference, and so do small programs without an event.
# A judgement.
ONE_EACH_WITHIN = 0.1
# Of the most programs that end in one step, how many end in another one that waits for the device (ratio). A program or
# two may end in the step before a wait, which is no wait of its own. A judgement.
OF_A_WAIT = 0.5
# How far the programs that end may be from those that are handed over for steps to hold their own work (steps): less
# than one. Where one or more are missing, up to so many steps at an end (steps) lack a wait for the device if they take
# less than three quarters of what the others take; longer queues are those above.
EVEN_WITHIN = 0.5
# Of what steps at an end are shorter by, how much the device must need for the programs that are missing (share). A
# wait is no longer than that; steps that are shorter for another reason, as a compile that took less, stay. A
# judgement: half, as the device may work beside the host.
EXPLAINS_SHORT_FROM = 0.5
SHORT_AT_MOST = RUN_UP_FROM_STEPS - 1
# What is said of steps at the beginning that are left out.
_FILLS = "the host handed {} over while the queue of its programs filled up"
_OLDER_WORK = "in {}, the device did the work of steps before the recording"


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
    more = queue.done - queue.given
    # One program more may have ended just behind the step that handed it over: nobody ran ahead.
    earlier = np.where(more >= AHEAD_FROM_STEPS, more, 0.0) / np.maximum(queue.done, 1.0) * busy
    varies = np.ptp(np.append(0.0, queue.length)) >= AHEAD_FROM_STEPS
    return RunAhead(earlier.astype(np.int64), bool(varies))


def with_even_ends(steps: Steps, devices: list[DeviceActivity], dispatching: Spans) -> Steps:
    """The steps without those at either end whose work the device does before or after them.

    The queue is empty where a recording begins, and later full: steps that only fill it take the host no time. Where a
    host waits every 20 steps for all of them, those after the last wait have their work behind the last step, and those
    up to the first one hold the work of steps before the recording. What is between steps hands over work of its own:
    nothing is left out there.
    """
    queue = _queue(steps, devices, dispatching)
    if queue is None or not steps.tile:
        return steps
    level, device = np.append(0.0, queue.length), _busiest(devices)
    # Where programs wait, the device works.
    older = _until_first_wait(level) if contains(device.busy, steps.start[:1]).all() else 0
    if len(steps) - older < FULL_FROM_STEPS:
        return steps  # as `_between` says: the queue may shrink up to the end, and no step would be left to look at
    rest = steps.only(slice(older, len(steps)))
    begin, end = _even_rows(level[older:], rest, device)
    works = _works_in(device, rest, begin, end) if begin else _works_on(device, rest)
    begin, end = (older + begin, older + end) if works else (older, len(steps))
    return _between(steps, begin, end, _OLDER_WORK if begin == older else _FILLS)


def _even_rows(level: Float64, steps: Steps, device: DeviceActivity) -> tuple[int, int]:
    """The rows of steps that hold as much work as they hand over; `level` is the queue before each, and at the end."""
    found = _once_full(level) or _full_at_the_end(level, steps) or (0, _until_last_wait(level))
    if found != (0, len(steps)):
        return found
    work = float(covered(device.busy, steps.start, steps.end).mean())
    return _without_short_ends(level, steps.wall_ps, work)


def without_run_up(steps: Steps) -> Steps:
    """The steps without leading ones that took the host next to no time, where all others took it far longer.

    Of a device that the trace does not show, that is all there is to see of a queue that fills up. A first one that
    compiled is left out with them.
    """
    if not steps.source.host_paced or not steps.tile or len(steps) < MIN_STEPS:
        return steps
    usual = median(steps.wall_ps[len(steps) // 2 :])
    quick = np.flatnonzero(steps.wall_ps * FULL_FROM < usual)
    if len(quick) < RUN_UP_FROM_STEPS or quick[0] > 1 or quick[-1] - quick[0] >= len(quick):
        return steps
    begin = int(quick[-1]) + 1
    return _between(steps, begin, len(steps)) if len(steps) - begin >= MIN_STEPS else steps


def _works_in(device: DeviceActivity, steps: Steps, begin: int, end: int) -> bool:
    """Whether the device works as the step in that row begins, or most of the time up to the end.

    XLA's CPU client leaves a gap between two programs, where it makes the memory of large results. The host then waits
    in each of these steps: those before, which only fill the queue, took it less time.
    """
    if contains(device.busy, steps.start[begin : begin + 1]).all():
        return True
    kept = slice(begin, end)
    busy = covered(device.busy, steps.start[kept], steps.end[kept]).sum()
    waits = median(steps.wall_ps[kept]) >= SLOWER_ONCE_FULL * median(steps.wall_ps[:begin])
    return bool(waits and busy >= WORKS_FROM_SHARE * steps.wall_ps[kept].sum())


def _works_on(device: DeviceActivity, steps: Steps) -> bool:
    """Whether the device works as the last step ends, or begins to in less time than a program takes.

    A queue that the host fills in a few milliseconds is there before its first program begins.
    """
    at = int(steps.end[-1]) - 1
    row = int(np.searchsorted(device.busy.end, at, "right"))
    begins = device.busy.start[row : row + 1] - at
    return bool((begins <= median(device.programs.end - device.programs.start)).any())


def _once_full(level: Float64) -> tuple[int, int] | None:
    """The rows of steps from where the queue is full on; None where it does not stay so."""
    full = median(level[len(level) // 2 :])
    first = int(np.argmax(level > full - 1))
    steady = np.ptp(level[first:]) <= AHEAD_FROM_STEPS
    return (first, len(level) - 1) if full >= RUN_UP_FROM_STEPS and steady else None


def _full_at_the_end(level: Float64, steps: Steps) -> tuple[int, int] | None:
    """The rows of the few last steps, where all others only fill the queue and took far less time; None elsewhere."""
    begin = int(np.argmax(level > level.max() - 1))
    last = len(level) - 1 - begin
    # A wait for all programs would empty it. Of so few, how many end in a step is not known exactly.
    stays = level[begin:].min() >= level[begin] / 2
    if not FULL_FROM_STEPS <= last < MIN_STEPS or level[begin] < RUN_UP_FROM_STEPS or not stays:
        return None
    waits = steps.wall_ps[begin:].min() >= FULL_FROM * median(steps.wall_ps[:begin])
    return (begin, len(level) - 1) if waits else None


def _until_last_wait(level: Float64) -> int:
    """The steps until the queue is as short as it gets for the last time; all where it does not grow behind that."""
    # A program that ends just behind a step makes one of difference; a step in which the queue grows is no wait.
    short = np.flatnonzero((level <= level.min() + 1) & (np.diff(level, prepend=level[0]) <= 0))
    last, steps = int(short[-1]), len(level) - 1
    grows = level[-1] - level[last]
    return last if grows >= max(RUN_UP_FROM_STEPS, GROWS_FROM * (steps - last)) else steps


def _until_first_wait(level: Float64) -> int:
    """The steps until the queue is as short as it gets for the first time; 0 where it does not shrink by much there.

    More programs end in them than they hand over, so a queue of older ones was there.
    """
    short = np.flatnonzero((level <= level.min() + 1) & (np.diff(level, prepend=level[0]) <= 0))
    first = int(short[0])
    return first if level[0] - level[first] >= max(RUN_UP_FROM_STEPS, GROWS_FROM * first) else 0


def _without_short_ends(level: Float64, wall: Int64, work: float) -> tuple[int, int]:
    """The rows of the steps without the fewest at the ends that lack a wait: in the others as many programs end.

    `work` is how long the device works in a step (ps).

    A host that reads the loss of the step before does not wait in the first captured step, since the device was done
    when recording began. And where a wait comes now in the graph cut and now behind it, the last step may have none.
    """
    count = len(wall)
    if level[-1] - level[0] <= EVEN_WITHIN:
        return 0, count
    few = range(min(SHORT_AT_MOST, count - MIN_STEPS) + 1)
    # Of as many, those at the beginning: there the queue is known to have been empty.
    for last, first in sorted(((last, first) for last in few for first in few), key=sum):
        end = count - last
        if end - first < MIN_STEPS or abs(level[end] - level[first]) > EVEN_WITHIN:
            continue
        ends, usual = np.append(wall[:first], wall[end:]), median(wall[first:end])
        needs = (level[-1] - level[0]) * work
        if (ends < WHOLE_FROM_SHARE * usual).all() and needs >= EXPLAINS_SHORT_FROM * (usual - ends).sum():
            return first, end
    return 0, count


def works_on(devices: list[DeviceActivity], times: Int64) -> bool:
    """Whether a device works at most of these times, the ends of steps say: its host did not wait for it."""
    at_work = np.zeros(len(times), np.bool_)
    for device in devices:
        at_work |= contains(device.busy, times)
    return bool(len(times) and at_work.mean() > WORKS_FROM_SHARE)


def _between(steps: Steps, begin: int, end: int, why: str = _FILLS) -> Steps:
    """The steps in those rows, the others as phases; all of them where too few would be left.

    `why` is what is said of those before.
    """
    if (begin, end) == (0, len(steps)) or end - begin < (FULL_FROM_STEPS if begin else MIN_STEPS):
        return steps
    filled = why.format(counted(begin, "step"))
    left = len(steps) - end
    later = f"the device did the work of {counted(left, 'step')} after the last of them"
    return steps.between(begin, end, LeftOut(RUN_UP, begin, filled), LeftOut(RUN_AHEAD, left, later))


def _queue(steps: Steps, devices: list[DeviceActivity], dispatching: Spans) -> _Queue | None:
    if not devices or not len(steps) or not steps.source.host_paced:
        return None
    given = _inside(dispatching.start, steps)
    # Steps hand over the same. What a few call beside is small, and such programs may leave no event.
    given = np.minimum(given, max(int(median(given)), 1))
    done = _inside(np.sort(_busiest(devices).programs.end), steps)
    # A call may be several programs, as on several devices.
    # Where half of the steps or more fill the queue, the later ones have a program end in each.
    often = median(done) >= 1
    of_one = median(given), median(done if often else done[len(done) // 2 :])
    if of_one[0] and abs(done.sum() - given.sum()) <= ONE_EACH_WITHIN * given.sum():
        # A call is a program. Where the host runs ahead, how many end in the middle step says nothing of that.
        of_one = of_one[0], of_one[0]
    if not all(of_one) and done.any():
        # From one wait to the next as many end as are handed over, or from the beginning to the only one.
        first, last = np.flatnonzero(done >= OF_A_WAIT * done.max())[[0, -1]].tolist()
        rows = slice(first + 1 if first < last else 0, last + 1)
        of_one = float(given[rows].mean()), float(done[rows].mean())
    return _Queue(given / of_one[0], done / of_one[1]) if all(of_one) else None


def _busiest(devices: list[DeviceActivity]) -> DeviceActivity:
    return max(devices, key=lambda each: each.busy.total)


def _inside(times: Int64, steps: Steps) -> Int64:
    """How many of the times, in order, each step holds, with what is between it and the next."""
    bounds = np.append(steps.start, steps.end[-1])
    found: Int64 = np.diff(np.searchsorted(times, bounds, "left"))
    return found
