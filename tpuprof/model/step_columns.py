"""The steps of all hosts as columns: what signals compute with, however many steps there are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tpuprof.model.host_run import HostRun
from tpuprof.model.intervals import Bool, Int64
from tpuprof.records import record
from tpuprof.units import PS_PER_MS, PS_PER_NS

Float64 = npt.NDArray[np.float64]
# A report lists this many steps of all hosts at most, so that one of a day's training stays below a megabyte (steps),
LISTED = 2_000
# in runs of neighbours, as a step is read with those around it, and at least one run of each host (steps).
NEIGHBOURS = 20
# The slowest steps are listed beside them (steps).
SLOWEST = 100


@record(frozen=True)
class Step:
    """One step: `index` as the program numbered it, its start in ns, its parts that are not empty in ms."""

    index: int
    host: str
    start_ns: int
    wall_ms: float
    breakdown_ms: dict[str, float]


@record(frozen=True)
class StepColumns:
    """Steps of all hosts, one row each, host by host: `host` is a row of `hosts`, the rest as in `Step`.

    `parts` holds each part that is not empty in every step, 0 where a step has none of it.
    """

    hosts: tuple[str, ...]
    host: Int64
    number: Int64
    start_ns: Int64
    wall_ms: Float64
    parts: Mapping[str, Float64]

    def __len__(self) -> int:
        return len(self.wall_ms)

    def where(self, chosen: Bool) -> StepColumns:
        """Those rows alone."""
        return StepColumns(
            self.hosts,
            self.host[chosen],
            self.number[chosen],
            self.start_ns[chosen],
            self.wall_ms[chosen],
            {name: column[chosen] for name, column in self.parts.items()},
        )

    def step(self, row: int) -> Step:
        """One row with its parts."""
        parts = {name: float(column[row]) for name, column in self.parts.items() if column[row]}
        host = self.hosts[int(self.host[row])]
        return Step(int(self.number[row]), host, int(self.start_ns[row]), float(self.wall_ms[row]), parts)

    @property
    def mean_ms(self) -> float:
        """Mean wall time."""
        return math.fsum(self.wall_ms.tolist()) / len(self)

    def mean_parts(self) -> dict[str, float]:
        """Mean of each part that is not empty in every step (ms), in the order in which steps have them."""
        seen = {name: column for name, column in self.parts.items() if column.any()}
        names = sorted(seen, key=lambda name: int(np.argmax(seen[name] != 0)))
        # One after the other, as `sum` adds: numpy's own sum rounds otherwise.
        return {name: sum(seen[name].tolist()) / len(self) for name in names}


def step_columns(hosts: Sequence[HostRun]) -> StepColumns:
    """The steps of all hosts."""
    names = dict.fromkeys(
        name for host in hosts for name, column in host.breakdown.parts.items() if column.any()
    )
    none = [np.zeros(len(host.steps), np.int64) for host in hosts]
    parts = {
        name: _joined([host.breakdown.parts.get(name, none[row]) for row, host in enumerate(hosts)])
        for name in names
    }
    return StepColumns(
        tuple(host.name for host in hosts),
        np.repeat(np.arange(len(hosts)), [len(host.steps) for host in hosts]),
        _joined([host.steps.number for host in hosts]),
        _joined([host.steps.start for host in hosts]) // PS_PER_NS,
        _joined([host.steps.wall_ps for host in hosts]) / PS_PER_MS,
        {name: column / PS_PER_MS for name, column in parts.items()},
    )


def _joined(columns: Sequence[Int64]) -> Int64:
    return np.concatenate([np.empty(0, np.int64), *columns])


def listed(count: int, hosts: int) -> Int64:
    """Rows of a host's steps that a report lists: all, or runs of neighbours at even distances, both ends included."""
    most = max(LISTED // max(hosts, 1), NEIGHBOURS)
    if count <= most:
        return np.arange(count)
    first = np.linspace(0, count - NEIGHBOURS, most // NEIGHBOURS).astype(np.int64)
    rows: Int64 = np.unique(first[:, None] + np.arange(NEIGHBOURS))
    return rows
