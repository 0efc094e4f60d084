"""Collectives of one host as columns: how long it was in each, by step. What hosts are compared by.

All devices leave a collective of all of them together, so the one that spent least time in it arrived last. Devices of
a host meet at the same collectives; the one that waited least speaks for the host. What another one spends in it longer
is no communication: it came earlier, and waited (`chip_meetings`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.meeting import meeting_ops
from tpuprof.model.intervals import Int64
from tpuprof.model.steps import Steps
from tpuprof.records import record


@record(frozen=True)
class Barriers:
    """One row per step, op and occurrence of the op in the step, in this order.

    `step` is the step's number and `op` a row of `names`. `spent` is the time in it and `end` when the host left it
    (ps). `device` is the row of the device that waited least, and `ahead` what the next one of the host waited longer
    (ps).
    """

    names: tuple[str, ...]
    step: Int64
    op: Int64
    occurrence: Int64
    spent: Int64
    end: Int64
    device: Int64
    ahead: Int64

    def __len__(self) -> int:
        return len(self.step)


_NONE = np.empty(0, np.int64)
NO_BARRIERS = Barriers((), *[_NONE] * 7)


def find_barriers(devices: list[DeviceActivity], steps: Steps) -> Barriers:
    """The collectives of all devices inside the steps of a host; empty where the trace has none."""
    names: dict[str, int] = {}
    found = [collectives_of(device, steps, names) for device in devices]
    rows = [len(step) for step, *_ in found]
    if not sum(rows):
        return NO_BARRIERS
    step, op, occurrence, spent, end = (
        np.concatenate([each[column] for each in found]) for column in range(5)
    )
    device = np.repeat(np.arange(len(devices)), rows)
    order = np.lexsort((device, spent, occurrence, op, step))
    step, op, occurrence = step[order], op[order], occurrence[order]
    first = np.ones(len(order), bool)
    first[1:] = (np.diff(step) != 0) | (np.diff(op) != 0) | (np.diff(occurrence) != 0)
    at = np.flatnonzero(first)
    spent = spent[order]
    after = np.minimum(at + 1, len(order) - 1)
    ahead = np.where(first[after], 0, spent[after] - spent[at])
    return Barriers(
        tuple(names), step[at], op[at], occurrence[at], spent[at], end[order][at], device[order][at], ahead
    )


def collectives_of(device: DeviceActivity, steps: Steps, names: dict[str, int]) -> tuple[Int64, ...]:
    """Step number, op, occurrence, time in it and end, of each collective of one device."""
    if device.count > 1 or not len(device.ops) or not len(steps):
        return (_NONE,) * 5
    events = device.op_events
    row_of = np.full(len(device.ops), -1, np.int64)
    for row in meeting_ops(device):
        name = device.ops.name[row]
        if "-start" not in name:
            row_of[row] = names.setdefault(name, len(names))
    chosen = np.flatnonzero(row_of[events.op] >= 0)
    chosen = chosen[np.argsort(events.start[chosen], kind="stable")]
    at = np.searchsorted(steps.start, events.start[chosen], "right") - 1
    inside = (at >= 0) & (events.start[chosen] < steps.end[np.maximum(at, 0)])
    chosen, at = chosen[inside], at[inside]
    op = row_of[events.op[chosen]]
    spent = events.end[chosen] - events.start[chosen]
    return steps.number[at], op, _occurrences(at, op), spent, events.end[chosen]


def _occurrences(step: Int64, op: Int64) -> Int64:
    """How often the same op stood in the same step before."""
    order = np.lexsort((np.arange(len(op)), op, step))
    first = np.ones(len(order), bool)
    first[1:] = (np.diff(step[order]) != 0) | (np.diff(op[order]) != 0)
    begin = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    found = np.empty(len(order), np.int64)
    found[order] = np.arange(len(order)) - begin
    return found


class Meetings(NamedTuple):
    """Collectives of all devices inside steps: how many, and how long one device waited in them for the others (ps).

    `first_ps` is how long whichever device came first to each waited, in all of them.
    """

    met: int
    waited_ps: int
    first_ps: int


NO_MEETINGS = Meetings(0, 0, 0)


def chip_meetings(devices: list[DeviceActivity], steps: Steps) -> list[Meetings]:
    """What each device waited, in the order of the devices; empty where fewer than two meet at anything."""
    if len(devices) < 2:
        return []
    names: dict[str, int] = {}
    found = [collectives_of(device, steps, names) for device in devices]
    numbers = np.unique(steps.number)
    most = max(int(occurrence.max(initial=0)) for _, _, occurrence, *_ in found) + 1
    columns = []
    for step, op, occurrence, spent, _ in found:
        key = (np.searchsorted(numbers, step) * max(len(names), 1) + op) * most + occurrence
        order = np.argsort(key, kind="stable")
        columns.append((key[order], spent[order]))
    times = _side_by_side(columns)
    if not times.shape[1]:
        return []
    waits = times - times.min(axis=0)
    first = int(waits.max(axis=0).sum())
    return [Meetings(times.shape[1], int(ps), first) for ps in waits.sum(axis=1)]


def _side_by_side(found: list[tuple[Int64, Int64]]) -> Int64:
    """Time in the collectives that all devices have, devices x collectives."""
    shared = found[0][0]
    for key, _ in found[1:]:
        shared = shared[np.isin(shared, key)]
    return np.stack([spent[np.searchsorted(key, shared)] for key, spent in found])
