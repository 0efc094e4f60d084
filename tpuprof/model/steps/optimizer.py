"""Steps from the calls of optimizers: what is between two of them, or between two rounds of several.

torch_xla runs the update at the graph cut that follows the call, so a step ends there; where no cut follows before the
next call, it ends at the call.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from tpuprof.model.intervals import Int64, ascending_distinct
from tpuprof.model.steps.repetition import EXPLAINS_FROM_SHARE, MIN_REPEATS, find_repetition
from tpuprof.model.timeline import Track
from tpuprof.own_events import OPTIMIZER_STEP
from tpuprof.records import record

OPTIMIZER_STAT = "optimizer"
# torch's own record_function around each call, in traces that record it.
_TORCH_EVENT = re.compile(r"Optimizer\.step#(.+)\.step$")
# TorchTPU cuts the name at the `#`, and the optimizer's class with it.
NAMELESS_EVENT = "Optimizer.step"


@record(frozen=True)
class OptimizerCalls:
    """Calls in time order: when each ended (ps), and a number for its optimizer.

    `nameless` calls do not tell one optimizer from another.
    """

    end: Int64
    optimizer: Int64
    nameless: bool = False


def read_optimizer_calls(driver: Track) -> OptimizerCalls | None:
    """Calls of optimizers on the training thread; None where the trace shows none."""
    names = driver.plane.events.names
    own = np.flatnonzero(driver.name_row == _row(names, OPTIMIZER_STEP))
    if len(own):
        stats = driver.stats(OPTIMIZER_STAT)
        number = driver.plane.stat_integers(stats, OPTIMIZER_STAT, len(driver))
        return _in_order(driver.end[own], number[own])
    rows = np.array([row for row, name in enumerate(names) if _TORCH_EVENT.search(name)], np.int64)
    found = np.flatnonzero(np.isin(driver.name_row, rows))
    if not len(found):
        found = np.flatnonzero(driver.name_row == _row(names, NAMELESS_EVENT))
        # Two profilers in one process each write the call: one inside the other.
        around = driver.parent[found]
        found = found[(around < 0) | (driver.name_row[around] != driver.name_row[found])]
        return (
            replace(_in_order(driver.end[found], driver.name_row[found]), nameless=True)
            if len(found)
            else None
        )
    # Optimizers of one class share a name: they count as one, and its round as several steps.
    return _in_order(driver.end[found], driver.name_row[found]) if len(found) else None


def steps_with_calls(driver: Track | None, ends: Int64) -> int:
    """Steps in which an optimizer was called; `ends` are the steps' ends in time order, ps."""
    calls = read_optimizer_calls(driver) if driver is not None else None
    if calls is None:
        return 0
    at = np.searchsorted(ends, calls.end, "left")
    return len(np.unique(at[at < len(ends)]))


def _row(names: list[str], wanted: str) -> int:
    return names.index(wanted) if wanted in names else -2


def _in_order(end: Int64, number: Int64) -> OptimizerCalls:
    order = np.argsort(end, kind="stable")
    return OptimizerCalls(end[order], number[order])


def last_of_rounds(calls: OptimizerCalls) -> tuple[Int64, int]:
    """Positions of the calls that complete a round of all optimizers, and the calls in one round.

    One optimizer: each call. Several: the shortest sequence that repeats (discriminator, generator; five critics, one
    generator). Where none repeats often enough, a round ends with the optimizer that came to the program last. So it
    does where that is called once at a time: a critic may be trained until it is good enough.
    """
    values = ascending_distinct(calls.optimizer)
    if len(values) == 1:
        return np.arange(len(calls.end)), 1
    found = find_repetition(calls.optimizer)
    repeats = found is not None and found.share >= EXPLAINS_FROM_SHARE and len(set(found.word)) == len(values)
    last = np.flatnonzero(calls.optimizer == values.max())
    gaps = np.diff(last)
    if found is not None and repeats and (gaps == 1).any():
        return found.until - 1, found.width
    return last, int(np.median(gaps)) if len(gaps) else len(calls.end)


def boundaries(calls: OptimizerCalls, edges: Int64) -> tuple[Int64, int]:
    """Where steps end and the next begin (ps), and the optimizer calls in one step.

    `edges` are the ends of graph cuts, or the starts of markers that the capture set at them.
    """
    last, width = last_of_rounds(calls)
    when = calls.end[last]
    following = np.append(calls.end, np.iinfo(np.int64).max)[last + 1]
    at = np.searchsorted(edges, when)
    # A trace may end between a call and its cut.
    edge = np.append(edges, when[-1:])[at]
    return np.where((edge >= when) & (edge <= following), edge, when) if len(edges) else when, width


def enough(calls: OptimizerCalls | None) -> bool:
    """Whether there are calls enough to tell steps by."""
    return calls is not None and len(calls.end) >= MIN_REPEATS
