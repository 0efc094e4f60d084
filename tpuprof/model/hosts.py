"""Several hosts as one picture: who was late in each step, by how much, and which host waited for which.

Clocks of different hosts differ by what NTP leaves, so lateness is not read off them. Where the devices meet at
a collective, all leave it together, and the one that spent least time in it arrived last: that needs no common
clock. Where no collective is seen, a host's own step time against the others' is compared instead.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.intervals import Int64
from tpuprof.model.steps import Steps
from tpuprof.records import record

BARRIER = "collectives"
WALL = "step times"
# A host is a straggler from this share of the step that others lose to it (ratio): XProf's barrier rule asks for
# 10 %, and half of that is already worth a look at one host.
STRAGGLER_FROM = 0.05


@record(frozen=True)
class HostView:
    """What of one host the comparison needs."""

    name: str
    origin_ns: int
    steps: Steps
    devices: list[DeviceActivity]


@record(frozen=True)
class LateStep:
    """One step on all hosts: who came last, how late (ps) against the first, where, and what each waited (ps)."""

    number: int
    host: str
    lag_ps: int
    barrier: str
    waited_ps: dict[str, int]


@record(frozen=True)
class Skew:
    """Lateness over a run. `straggler` is the host that costs the others most, empty where none stands out.

    `lag_ps` is its sum over steps. `clock_ns` is how far each host's clock reads ahead of the first host's at the
    same barrier, None where no collective tells.
    """

    method: str
    steps: list[LateStep]
    straggler: str
    lag_ps: int
    clock_ns: dict[str, int | None] = field(default_factory=dict)


def find_skew(hosts: list[HostView]) -> Skew | None:
    """Compare hosts step by step; None with fewer than two hosts or without common steps."""
    present = [host for host in hosts if len(host.steps)]
    if len(present) < 2:
        return None
    rows = _common_steps(present)
    if not rows:
        return None
    barriers = [_waits(host) for host in present]
    shared = set.intersection(*(set(each) for each in barriers))
    late = []
    for number, at in rows.items():
        found = _at_barrier(number, present, barriers, shared) if shared else None
        late.append(found or _by_wall(number, present, at))
    lost: dict[str, int] = {}
    for each in late:
        lost[each.host] = lost.get(each.host, 0) + each.lag_ps
    worst = max(lost, key=lambda name: lost[name])
    total = sum(int(present[0].steps.wall_ps[at[0]]) for at in rows.values())
    return Skew(
        method=BARRIER if shared else WALL,
        steps=late,
        straggler=worst if lost[worst] >= STRAGGLER_FROM * total else "",
        lag_ps=lost[worst],
        clock_ns=_clocks(present, barriers, shared),
    )


def _common_steps(hosts: list[HostView]) -> dict[int, list[int]]:
    """Row of each step on every host, by the step's number: steps that some host lacks are left out."""
    tables = [{int(number): row for row, number in enumerate(host.steps.number)} for host in hosts]
    shared = [number for number in tables[0] if all(number in table for table in tables)]
    return {number: [table[number] for table in tables] for number in shared}


def _waits(host: HostView) -> dict[tuple[int, str, int], tuple[int, int]]:
    """(time in it, end) in ps of each collective, by step number, op and occurrence in the step.

    Devices of a host meet at the same collectives; the one that waited least speaks for the host.
    """
    found: dict[tuple[int, str, int], tuple[int, int]] = {}
    for device in host.devices:
        for key, (spent, end) in _device_waits(device, host.steps).items():
            if key not in found or spent < found[key][0]:
                found[key] = (spent, end)
    return found


def _device_waits(device: DeviceActivity, steps: Steps) -> dict[tuple[int, str, int], tuple[int, int]]:
    if device.count > 1 or not len(device.ops):
        return {}
    events = device.op_events
    chosen = np.flatnonzero(device.ops.kind[events.op] == OpKind.COLLECTIVE)
    chosen = chosen[np.argsort(events.start[chosen], kind="stable")]
    at = np.searchsorted(steps.start, events.start[chosen], "right") - 1
    inside = (at >= 0) & (events.start[chosen] < steps.end[np.maximum(at, 0)])
    seen: dict[tuple[int, str], int] = {}
    found = {}
    for row, step in zip(chosen[inside].tolist(), at[inside].tolist(), strict=True):
        name = device.ops.name[int(events.op[row])]
        if "-start" in name:
            continue
        number = int(steps.number[step])
        occurrence = seen.get((number, name), 0)
        seen[number, name] = occurrence + 1
        found[number, name, occurrence] = (int(events.end[row] - events.start[row]), int(events.end[row]))
    return found


def _at_barrier(
    number: int,
    hosts: list[HostView],
    barriers: list[dict[tuple[int, str, int], tuple[int, int]]],
    shared: set[tuple[int, str, int]],
) -> LateStep | None:
    """The collective of one step at which most was waited; the host that waited least there came last."""
    keys = [key for key in shared if key[0] == number]
    if not keys:
        return None

    def waited(key: tuple[int, str, int]) -> list[int]:
        return [table[key][0] for table in barriers]

    worst = max(sorted(keys), key=lambda key: max(waited(key)) - min(waited(key)))
    spent = waited(worst)
    least = min(spent)
    return LateStep(
        number=number,
        host=hosts[spent.index(least)].name,
        lag_ps=max(spent) - least,
        barrier=worst[1],
        waited_ps={host.name: each - least for host, each in zip(hosts, spent, strict=True)},
    )


def _by_wall(number: int, hosts: list[HostView], at: list[int]) -> LateStep:
    walls = [int(host.steps.wall_ps[row]) for host, row in zip(hosts, at, strict=True)]
    longest = max(walls)
    return LateStep(number, hosts[walls.index(longest)].name, longest - min(walls), "", {})


def _clocks(
    hosts: list[HostView],
    barriers: list[dict[tuple[int, str, int], tuple[int, int]]],
    shared: set[tuple[int, str, int]],
) -> dict[str, int | None]:
    """Each host's clock against the first one's: the median difference of the moments they left one barrier."""
    clocks: dict[str, int | None] = {}
    first = _ends_ns(hosts[0], barriers[0], shared)
    for host, barrier in zip(hosts, barriers, strict=True):
        differences = _ends_ns(host, barrier, shared) - first
        clocks[host.name] = int(np.median(differences)) if len(differences) else None
    return clocks


def _ends_ns(
    host: HostView, barrier: dict[tuple[int, str, int], tuple[int, int]], shared: set[tuple[int, str, int]]
) -> Int64:
    return np.array([host.origin_ns + barrier[key][1] // 1000 for key in sorted(shared)], np.int64)
