"""Transfers in flight: their rates, their turns on a shared link, and what the device did meanwhile.

A transfer is hidden only while the device computes. Time in flight falls into four parts: computing, waiting for this
transfer (exposed), waiting for other transfers, and the rest, in which the device was idle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.intervals import EMPTY, Bool, Int64, Spans, covered, intersect, merge, subtract, union
from tpuprof.model.median import median
from tpuprof.model.steps import Steps
from tpuprof.units import PS_PER_S

# A transfer counts as alone on the link while others overlap at most this share of it.
ALONE_SHARE = 0.01
# A copy whose turn on the link, by the order in which copies begin, was less than this share of its own span did not
# wait its turn (it ended with the copy before it): what it had alone is unknown. Of 600 copies on a v6e, 101 had
# turns below a thousandth of their span, and no other one below 0.15 (share).
LEAST_TURN = 0.1
# Share of the executions whose spans must have a length for the transfer's times and rates to be trusted. With fewer,
# the sums would be those of a minority. A judgement.
LEAST_WITH_LENGTH = 0.5
NO_ASYNC_LINE = "unavailable: the capture has no `Async XLA Ops` span for it"
NO_LENGTH = "inconsistent: most of its asynchronous spans have no length"

# Start and end of each execution of one transfer (ps).
Span = tuple[Int64, Int64]


class Motion(NamedTuple):
    """Of the executions inside steps: rates of the median one (bytes/s), and sums of time in flight (ps).

    None is unavailable, for the reason in `note`.
    """

    rate: float | None = None
    rate_alone: float | None = None
    hidden_ps: int | None = None
    waiting_ps: int | None = None
    note: str = ""


# A transfer that is one op: its core does nothing else meanwhile.
BLOCKING = Motion(hidden_ps=0, waiting_ps=0)
# One whose work the trace does not have.
UNSEEN = Motion(note=NO_ASYNC_LINE)


class Beside(NamedTuple):
    """What one device does beside a transfer: computing, waiting for any transfer, and when several share the link."""

    computing: Spans
    waiting: Spans
    shared: Spans

    @staticmethod
    def of(device: DeviceActivity, shared: Spans) -> Beside:
        """Read it from the device's ops; what computes beside a wait counts as computing."""
        kinds = device.by_kind
        waits = merge(kinds[OpKind.OFFLOAD], kinds[OpKind.COLLECTIVE], kinds[OpKind.INFEED_OUTFEED])
        return Beside(kinds[OpKind.COMPUTE], subtract(waits, kinds[OpKind.COMPUTE]), shared)


def motion(steps: Steps, span: Span, turn: Span, own: Spans, beside: Beside, size: int) -> Motion:
    """Rates and times of one transfer; `turn` is when it had the link, `own` when its own ops ran."""
    inside = steps.hold(span[0])
    start, end = span[0][inside], span[1][inside]
    lasting = end > start
    if not len(start):
        return UNSEEN
    if lasting.sum() < LEAST_WITH_LENGTH * len(start):
        return Motion(note=NO_LENGTH)
    start, end, begun = start[lasting], end[lasting], turn[0][inside][lasting]
    rates = _rates(start, end, begun, beside.shared, size)
    hidden = int(covered(beside.computing, start, end).sum())
    others = subtract(beside.waiting, intersect(beside.waiting, own))
    return Motion(*rates, hidden, int(covered(others, start, end).sum()))


def _rates(
    start: Int64, end: Int64, begun: Int64, shared: Spans, size: int
) -> tuple[float | None, float | None]:
    if not size:
        return None, None
    turn = end - begun
    alone: Bool = (covered(shared, begun, end) <= ALONE_SHARE * turn) & (turn > 0)
    alone &= turn >= LEAST_TURN * (end - start)
    undisturbed = turn[alone]
    rate_alone = size / (median(undisturbed) / PS_PER_S) if len(undisturbed) else None
    return size / (median(end - start) / PS_PER_S), rate_alone


def served(
    moving: dict[tuple[str, str], Span], directions: dict[tuple[str, str], str]
) -> dict[tuple[str, str], Span]:
    """When each copy had its direction of the link: copies of one direction are served in the order they begin.

    On a v6e, of three copies begun together the first runs at the rate of one alone, and the others after it.
    """
    found = dict(moving)
    for direction in set(directions.values()):
        keys = [key for key in moving if directions[key] == direction]
        start = np.concatenate([moving[key][0] for key in keys])
        end = np.concatenate([moving[key][1] for key in keys])
        order = np.argsort(start, kind="stable")
        reach = np.maximum.accumulate(end[order])
        begun = start[order].copy()
        begun[1:] = np.minimum(np.maximum(begun[1:], reach[:-1]), end[order][1:])
        start[order] = begun
        cuts = np.cumsum([len(moving[key][0]) for key in keys])[:-1]
        for key, part in zip(keys, np.split(start, cuts), strict=True):
            found[key] = (part, moving[key][1])
    return found


def shared(moving: list[Span]) -> Spans:
    """When more than one of the transfers had the link."""
    each = [union(*span) for span in moving]
    if not each:
        return EMPTY
    start, end = np.concatenate([one.start for one in each]), np.concatenate([one.end for one in each])
    time = np.concatenate((start, end))
    change = np.repeat(np.array([1, -1], np.int8), len(start))
    order = np.argsort(time, kind="stable")
    time, count = time[order], np.cumsum(change[order], dtype=np.int64)
    several = np.flatnonzero(count[:-1] > 1)
    return union(time[several], time[several + 1])
