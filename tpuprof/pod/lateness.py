"""Which hosts and chips are late, by how much, and what they do longer than the others.

A host is compared with the one in the middle, not with the first: of a thousand hosts one is always first by chance.
Hosts that run different programs are not compared with each other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tpuprof.model.hosts import BARRIER, STRAGGLER_FROM, WALL, HostView, Meeting, meet
from tpuprof.model.intervals import Int64
from tpuprof.parts import COLLECTIVE
from tpuprof.pod.summary import HostSummary
from tpuprof.records import record

# A host is a straggler from this many times the usual spread of all hosts on (ratio, of the median distance from the
# middle): five of them leave out the tails that a thousand hosts of one speed have.
SPREAD_FROM = 5.0
# One chip is named where it came first to wait least in this share of the collectives (ratio).
CHIP_FROM = 0.8
# ... and where the next chip of its host waited longer by this share of the host's lag (ratio).
CHIP_AHEAD_FROM = 0.5


@record(frozen=True)
class Late:
    """One straggler: its lag per step (ps) behind the middle host, the part it is longer in, and the chip if one is.

    `excess_ps` is by how much that part is longer per step than the middle host's, None where no part is.
    """

    host: str
    method: str
    lag_ps: float
    share: float
    steps: int
    part: str
    excess_ps: float | None
    chip: str


@record(frozen=True)
class Lateness:
    """Hosts that run one program, side by side: `late_ps` is hosts x steps, the middle host's is 0."""

    hosts: list[str]
    number: Int64
    late_ps: npt.NDArray[np.float64]
    method: str
    stragglers: list[Late]
    left_out: list[str]


def find_lateness(summaries: list[HostSummary]) -> list[Lateness]:
    """One comparison for each set of at least two hosts with the same program, the largest set first."""
    cohorts: dict[tuple[str, str], list[HostSummary]] = {}
    for each in summaries:
        cohorts.setdefault((each.framework, each.program), []).append(each)
    found = [_compared(members) for members in cohorts.values()]
    present = [each for each in found if each is not None]
    return sorted(present, key=lambda each: (-len(each.hosts), each.hosts[0]))


def _compared(members: list[HostSummary]) -> Lateness | None:
    met = meet([HostView(each.name, each.origin_ns, each.steps, each.barriers) for each in members])
    if met is None:
        return None
    by_name = {each.name: each for each in members}
    hosts = [by_name[host.name] for host in met.hosts]
    wall = met.wall
    barriers = len(met.step) > 0
    late = _at_barriers(met) if barriers else (wall - _middle(wall)).astype(np.float64)
    method = BARRIER if barriers else WALL
    return Lateness(
        [host.name for host in hosts],
        met.number,
        late,
        method,
        _stragglers(met, hosts, late, wall, method),
        [host.name for host in met.left_out],
    )


def _middle(columns: Int64) -> Int64:
    """The lower middle of each column: of two hosts the faster one."""
    at = (len(columns) - 1) // 2
    middle: Int64 = np.partition(columns, at, axis=0)[at]
    return middle


def _at_barriers(met: Meeting) -> npt.NDArray[np.float64]:
    """How much less each host waited than the middle one, summed over the collectives of each step.

    All leave a collective together and begin the next stretch together, so lateness at each is of that stretch alone.
    """
    spent = met.column("spent")
    # Who waits longer came earlier: of two hosts the earlier one is the middle.
    waited = -_middle(-spent) - spent
    begin = np.searchsorted(met.step, np.arange(len(met.number)))
    late = np.zeros((len(spent), len(met.number)))
    has = np.flatnonzero(np.diff(np.append(begin, len(met.step))) > 0)
    late[:, has] = np.add.reduceat(waited, begin[has], axis=1)
    return late


def _stragglers(
    met: Meeting, hosts: list[HostSummary], late: npt.NDArray[np.float64], wall: Int64, method: str
) -> list[Late]:
    mean = late.mean(axis=1)
    step = float(_middle(wall).mean())
    spread = float(np.median(np.abs(mean - np.median(mean)))) if len(mean) > 2 else 0.0
    least = max(STRAGGLER_FROM * step, SPREAD_FROM * spread)
    chosen = [row for row in np.argsort(-mean, kind="stable").tolist() if step and mean[row] >= least]
    if not chosen:
        return []
    parts = _part_means(hosts, met)
    return [
        Late(
            hosts[row].name,
            method,
            float(mean[row]),
            float(mean[row]) / step,
            int((late[row] >= STRAGGLER_FROM * step).sum()),
            *_reason(parts, row, float(mean[row])),
            _chip(met, hosts[row], row, float(mean[row])),
        )
        for row in chosen
    ]


def _part_means(hosts: list[HostSummary], met: Meeting) -> dict[str, npt.NDArray[np.float64]]:
    """Mean of each part per step, by host."""
    names = sorted({name for host in hosts for name in host.parts})
    return {
        name: np.array(
            [
                float(host.parts[name][at].mean()) if name in host.parts else 0.0
                for host, at in zip(hosts, met.at, strict=True)
            ]
        )
        for name in names
    }


def _reason(parts: dict[str, npt.NDArray[np.float64]], row: int, lag_ps: float) -> tuple[str, float | None]:
    """The part that is longest beyond the middle host's, where it explains a part of the lag worth naming."""
    excess = {
        name: float(column[row] - np.median(column)) for name, column in parts.items() if name != COLLECTIVE
    }
    part = max(sorted(excess), key=lambda name: excess[name], default="")
    # A quarter of the lag: below it the part is one of many, and naming it would mislead.
    if not part or excess[part] < 0.25 * lag_ps:
        return "", None
    return part, excess[part]


def _chip(met: Meeting, host: HostSummary, row: int, lag_ps: float) -> str:
    """The chip that held its host up, empty where the host's chips came together."""
    if len(host.devices) < 2 or not len(met.step):
        return ""
    at = met.row[row]
    device, count = np.unique(host.barriers.device[at], return_counts=True)
    most = int(np.argmax(count))
    if count[most] < CHIP_FROM * len(at):
        return ""
    chosen = at[host.barriers.device[at] == device[most]]
    ahead = float(host.barriers.ahead[chosen].sum()) / len(met.number)
    return host.devices[int(device[most])].name if ahead >= CHIP_AHEAD_FROM * lag_ps else ""
