"""Which findings sell the same time: those whose changes take out the same stretches of the replayed timeline, or
time of the same ops.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, reduce
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tpuprof import parts as part
from tpuprof.simulate.change import Change
from tpuprof.simulate.replay import Simulator, host_factors
from tpuprof.simulate.timeline import Timeline

# Two savings are shared where this much of the smaller one's time is the other's as well (share). Below a tenth the
# sum of both is off by less than what makes a finding.
SHARED_FROM_SHARE = 0.10
# Parts of which a change is about all ops, so that two changes are about the same ones. Of compute and collectives, a
# change is about some ops, and another one about others.
_WHOLE = (part.OFFLOAD,)
# Rules that divide compiles among them by the cause: each compile is of one of them, so what they save adds up. Where a
# price's upper end counts compiles that may have another one's cause, they add up to more than all compiling.
_BY_CAUSE = frozenset({"recompiles-shape", "recompiles-constant", "recompiles-other"})
# An op by program and name.
Op = tuple[str, str]


class Taken(NamedTuple):
    """Time (ps) that a change takes out: of each host stretch, and of each device part with that part's own time."""

    host: npt.NDArray[np.float64]
    device: Mapping[str, tuple[float, float]]

    @property
    def total(self) -> float:
        """All of it."""
        return float(self.host.sum()) + sum(gone for gone, _ in self.device.values())


def taken(timeline: Timeline, change: Change) -> Taken:
    """What a change takes out of a timeline."""
    rows = timeline.stretches
    left = host_factors(rows, change)
    if change.steps is not None:
        left = np.where(np.isin(rows.step, list(change.steps)), left, 0.0)
    own = {name: float(ps.sum()) for name, ps in timeline.work.parts.items()}
    device = {
        name: ((1.0 - factor) * own.get(name, 0.0), own.get(name, 0.0))
        for name, factor in change.device.items()
    }
    return Taken((rows.end - rows.start) * (1.0 - left), device)


def share_time(one: Taken, other: Taken) -> bool:
    """Whether enough of the smaller one's time is the other's as well."""
    both = float(np.minimum(one.host, other.host).sum())
    for name in set(one.device) & set(other.device):
        (gone, own), (also, _) = one.device[name], other.device[name]
        # Of unknown ops, two changes surely share only what does not fit into the part side by side.
        both += min(gone, also) if name in _WHOLE else max(gone + also - own, 0.0)
    smaller = min(one.total, other.total)
    return smaller > 0 and both >= SHARED_FROM_SHARE * smaller


def _apart(one: Change, other: Change) -> bool:
    """Whether two changes take out no more than all compiling together: each compile is then of one of them."""
    return sum(1 - each.host.get(part.COMPILE, 1.0) for each in (one, other)) <= 1 + SHARED_FROM_SHARE


def share_ops(one: Mapping[Op, float], other: Mapping[Op, float]) -> bool:
    """Whether two fixes take enough time of the same ops: both may take it, but once only."""
    both = sum(min(ms, other[op]) for op, ms in one.items() if op in other)
    smaller = min(sum(one.values()), sum(other.values()))
    return smaller > 0 and both >= SHARED_FROM_SHARE * smaller


def runs_ahead(change: Change) -> bool:
    """Whether a change lets the host run ahead: it takes out little itself, and hides what another one takes out."""
    return change.unblock or change.join_cuts is not None


def share_gain(one: float, other: float, together: float) -> bool:
    """Whether two changes gain enough less together than they do alone."""
    smaller = min(one, other)
    return smaller > 0 and one + other - together >= SHARED_FROM_SHARE * smaller


def saved_together(
    simulator: Simulator,
    changes: Mapping[str, Change],
    shared: Mapping[str, list[str]],
    most: Mapping[str, float],
) -> dict[str, float | None]:
    """By rule what its fix and those of the rules that it shares its saving with save together at most (ms per step).

    None where that is not more than one of them saves. `most` is the upper end of each rule's price, which may be
    another one than its change's replay: all of them together save at most their sum.
    """
    groups = {
        rule: frozenset({rule, *others})
        for rule, others in shared.items()
        if others and {rule, *others} <= most.keys()
    }
    # Rules that all share with each other are one group, and a replay takes long.
    saved = {group: _together(simulator, changes, group, most) for group in set(groups.values())}
    return {rule: saved[group] for rule, group in groups.items()}


def _together(
    simulator: Simulator, changes: Mapping[str, Change], rules: frozenset[str], most: Mapping[str, float]
) -> float | None:
    change = reduce(Change.and_also, (changes[rule] for rule in sorted(rules)))
    gained = min(simulator.measured_ms - simulator.step_ms(change), sum(most[rule] for rule in rules))
    smallest, largest = (pick(most[rule] for rule in rules) for pick in (min, max))
    return gained if gained >= largest + SHARED_FROM_SHARE * smallest > 0 else None


def shared_savings(
    simulator: Simulator, changes: Mapping[str, Change], ops: Mapping[str, Mapping[Op, float]]
) -> dict[str, list[str]]:
    """By rule the other rules that its saving is shared with, sorted; `ops` is what a rule's fix takes of which ops."""
    found = {rule: taken(simulator.timeline, change) for rule, change in changes.items()}
    none: Mapping[Op, float] = {}

    @cache
    def gain(*rules: str) -> float:
        change = reduce(Change.and_also, (changes[rule] for rule in rules))
        return simulator.measured_ms - simulator.step_ms(change)

    def shares(one: str, other: str) -> bool:
        if {one, other} <= _BY_CAUSE and _apart(changes[one], changes[other]):
            return False
        if share_time(found[one], found[other]) or share_ops(ops.get(one, none), ops.get(other, none)):
            return True
        ahead = runs_ahead(changes[one]) or runs_ahead(changes[other])
        return ahead and share_gain(gain(one), gain(other), gain(one, other))

    # A replay takes long, and what two share is the same from both sides.
    pairs = {pair for pair in combinations(sorted(found), 2) if shares(*pair)}
    return {rule: sorted(each for each in found if tuple(sorted((rule, each))) in pairs) for rule in found}
