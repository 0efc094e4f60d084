"""Several hosts as one picture: who was late in each step, by how much, and which host waited for which.

Clocks of different hosts differ by what NTP leaves, so lateness is not read off them. Where the devices meet at
a collective, all leave it together, and the one that spent least time in it arrived last: that needs no common
clock. Where no collective is seen, a host's own step time against the others' is compared instead.

A host whose capture holds other steps than most hosts' is left out of the comparison. So is one that runs another
program and meets the others at no collective.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field

import numpy as np

from tpuprof.model.barriers import NO_BARRIERS, Barriers
from tpuprof.model.intervals import Int64
from tpuprof.model.steps import Steps
from tpuprof.records import record
from tpuprof.units import PS_PER_NS

BARRIER = "collectives"
WALL = "step times"
# A host is a straggler from this share of the step that others lose to it (ratio): XProf's barrier rule asks for
# 10 %, and half of that is already worth a look at one host.
STRAGGLER_FROM = 0.05
# A host is compared where it has this share of the steps that most hosts have (ratio): below it, the other hosts would
# be compared by the few steps that this one has.
COMPARED_FROM = 0.5


@record(frozen=True)
class HostView:
    """What of one host the comparison needs."""

    name: str
    origin_ns: int
    steps: Steps
    barriers: Barriers = NO_BARRIERS
    # The program that its devices mostly run, empty where that is unknown.
    program: str = ""


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
    same barrier, None where no collective tells. `left_out` are hosts that have other steps, `other_program` those
    that run another program than most, and share no collective with them.
    """

    method: str
    steps: list[LateStep]
    straggler: str
    lag_ps: int
    clock_ns: dict[str, int | None] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    other_program: list[str] = field(default_factory=list)


@record(frozen=True)
class Meeting:
    """Hosts at what they have in common.

    `number` are the common steps, `at` the row of each on each host (hosts x steps). `step` and `op` are of the common
    collectives, `step` as a place in `number`, `op` as a place in `names`; `row` is the row of each in each host's
    barriers (hosts x collectives).
    """

    hosts: list[HostView]
    left_out: list[HostView]
    number: Int64
    at: Int64
    names: list[str]
    step: Int64
    op: Int64
    row: Int64

    @property
    def wall(self) -> Int64:
        """Step times (ps), hosts x steps."""
        return np.stack([host.steps.wall_ps[at] for host, at in zip(self.hosts, self.at, strict=True)])

    def column(self, name: str) -> Int64:
        """A column of the barriers, hosts x collectives."""
        return np.stack(
            [getattr(host.barriers, name)[row] for host, row in zip(self.hosts, self.row, strict=True)]
        )


def meet(views: list[HostView]) -> Meeting | None:
    """What hosts have in common; None with fewer than two hosts or without common steps."""
    present = [host for host in views if len(host.steps)]
    if len(present) < 2:
        return None
    numbers, counts = np.unique(
        np.concatenate([np.unique(host.steps.number) for host in present]), return_counts=True
    )
    usual = numbers[counts * 2 > len(present)]
    inside = [
        np.isin(usual, host.steps.number).mean() >= COMPARED_FROM if len(usual) else False for host in present
    ]
    hosts = [host for host, kept in zip(present, inside, strict=True) if kept]
    if len(hosts) < 2:
        return None
    common = usual
    for host in hosts:
        common = common[np.isin(common, host.steps.number)]
    if not len(common):
        return None
    # As the first host counts them; of a number that comes twice the later step counts.
    at = np.stack([_rows(host.steps.number, common) for host in hosts])
    order = np.argsort(at[0], kind="stable")
    common, at = common[order], at[:, order]
    left_out = [host for host, kept in zip(present, inside, strict=True) if not kept]
    return Meeting(hosts, left_out, common, at, *_common_barriers(hosts, common))


def find_skew(hosts: list[HostView]) -> Skew | None:
    """Compare hosts step by step; None with fewer than two hosts or without common steps."""
    others: list[str] = []
    met = meet(hosts)
    if met is not None and not len(met.step):
        # Step times of two programs say nothing of either.
        same, others = _of_one_program(hosts)
        met = meet(same) if others else met
    if met is None:
        return None
    wall = met.wall
    spent = met.column("spent")
    late = [_at_barrier(met, spent, place) or _by_wall(met, wall, place) for place in range(len(met.number))]
    lost: dict[str, int] = {}
    for each in late:
        lost[each.host] = lost.get(each.host, 0) + each.lag_ps
    worst = max(lost, key=lambda name: lost[name])
    return Skew(
        method=BARRIER if len(met.step) else WALL,
        steps=late,
        straggler=worst if lost[worst] >= STRAGGLER_FROM * int(wall[0].sum()) else "",
        lag_ps=lost[worst],
        clock_ns=_clocks(met),
        left_out=[host.name for host in met.left_out],
        other_program=others,
    )


def _of_one_program(hosts: list[HostView]) -> tuple[list[HostView], list[str]]:
    """The hosts that run the program of most of them, and the names of the others."""
    programs = Counter(host.program for host in hosts)
    usual = max(programs, key=lambda name: programs[name])
    same = [host for host in hosts if host.program == usual]
    return same, [host.name for host in hosts if host.program != usual]


def _rows(numbers: Int64, wanted: Int64) -> Int64:
    order = np.argsort(numbers, kind="stable")
    return order[np.searchsorted(numbers[order], wanted, "right") - 1]


def _common_barriers(hosts: list[HostView], steps: Int64) -> tuple[list[str], Int64, Int64, Int64]:
    """Names, step, op and rows of the collectives that all hosts have in the common steps."""
    names = {name: row for row, name in enumerate(sorted({n for host in hosts for n in host.barriers.names}))}
    most = max((int(host.barriers.occurrence.max(initial=0)) for host in hosts), default=0) + 1
    place = np.argsort(steps, kind="stable")
    keys, rows = [], []
    for host in hosts:
        found = host.barriers
        inside = np.flatnonzero(np.isin(found.step, steps))
        step = place[np.searchsorted(steps[place], found.step[inside])]
        op = np.array([names[name] for name in found.names], np.int64)[found.op[inside]]
        key = (step * max(len(names), 1) + op) * most + found.occurrence[inside]
        order = np.argsort(key, kind="stable")
        keys.append(key[order])
        rows.append(inside[order])
    shared = keys[0]
    for each in keys[1:]:
        shared = shared[np.isin(shared, each)]
    row = np.stack([rows[i][np.searchsorted(keys[i], shared)] for i in range(len(hosts))])
    rest = shared // most
    return list(names), rest // max(len(names), 1), rest % max(len(names), 1), row


def _at_barrier(met: Meeting, spent: Int64, place: int) -> LateStep | None:
    """The collective of one step at which most was waited; the host that waited least there came last."""
    low, high = np.searchsorted(met.step, [place, place + 1])
    if low == high:
        return None
    columns = spent[:, low:high]
    worst = int(np.argmax(columns.max(0) - columns.min(0)))
    waited = columns[:, worst] - columns[:, worst].min()
    last = int(np.argmin(waited))
    return LateStep(
        number=int(met.number[place]),
        host=met.hosts[last].name,
        lag_ps=int(waited.max()),
        barrier=met.names[int(met.op[low + worst])],
        waited_ps={host.name: each for host, each in zip(met.hosts, waited.tolist(), strict=True)},
    )


def _by_wall(met: Meeting, wall: Int64, place: int) -> LateStep:
    column = wall[:, place]
    last = int(np.argmax(column))
    return LateStep(int(met.number[place]), met.hosts[last].name, int(column[last] - column.min()), "", {})


def _clocks(met: Meeting) -> dict[str, int | None]:
    """Each host's clock against the first one's: the median difference of the moments they left one barrier."""
    if not len(met.step):
        return {host.name: None for host in met.hosts}
    ends = met.column("end") // PS_PER_NS + np.array([[host.origin_ns] for host in met.hosts], np.int64)
    differences = np.median(ends - ends[0], axis=1)
    return {host.name: int(each) for host, each in zip(met.hosts, differences, strict=True)}
