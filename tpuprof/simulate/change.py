"""What a replay of a trace leaves out: the counterfactual behind a price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tpuprof.records import record


@record(frozen=True)
class Change:
    """What is different in a replay. Factors (0 to 1) say how much of a time is left; 1 is left out.

    `host` is by kind of host time (a part of the breakdown, or `device_wait`), `named_events` by those of the
    vocabulary, `device` by part of the breakdown that the device itself makes up. `unblock` lets the host run
    past reads and the waits they bring, but not past the waits of graph cuts. `let_go` lets the device run what the
    training thread runs itself: a read of it waits, and nothing else does. `as_one` has the pieces of device work begin
    without the time from each one's launch to its start, as parts of one program do. `join_cuts` keeps that share of
    each graph cut of a step but the longest, and lets the host run past all waits; not with `waits_stay`, where the
    runtime itself may wait in the one cut that is left. `steps` limits the replay to those rows of the steps.
    """

    host: Mapping[str, float] = field(default_factory=dict)
    named_events: Mapping[str, float] = field(default_factory=dict)
    device: Mapping[str, float] = field(default_factory=dict)
    unblock: bool = False
    let_go: bool = False
    as_one: bool = False
    join_cuts: float | None = None
    waits_stay: bool = False
    steps: frozenset[int] | None = None

    def and_also(self, other: Change) -> Change:
        """Both changes at once: where both touch the same time, the one that leaves less of it holds."""
        return Change(
            host=_least(self.host, other.host),
            named_events=_least(self.named_events, other.named_events),
            device=_least(self.device, other.device),
            unblock=self.unblock or other.unblock,
            let_go=self.let_go or other.let_go,
            as_one=self.as_one or other.as_one,
            join_cuts=_less(self.join_cuts, other.join_cuts),
            waits_stay=_stay([each.waits_stay for each in (self, other) if each.join_cuts is not None]),
            steps=_both(self.steps, other.steps),
        )


def _least(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: min(one.get(name, 1.0), other.get(name, 1.0)) for name in {**one, **other}}


def _less(one: float | None, other: float | None) -> float | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _stay(joined: list[bool]) -> bool:
    """Whether waits stay in both of the changes that join cuts; where none does, nothing is joined."""
    return bool(joined) and all(joined)


def _both(one: frozenset[int] | None, other: frozenset[int] | None) -> frozenset[int] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other or one
