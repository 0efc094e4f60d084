"""Splits the wall time of a job's attempts into kinds. The sum is the wall time exactly: it is made of whole pieces.

The rules are those of ml-goodput-measurement: a step counts as productive if no later attempt did it again; without
measured compiles, what a first step takes longer than the mean of the others is program start-up; marked phases and
checkpoints are taken out of the steps in which they lie.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tpuprof.goodput.attempts import Attempt, Span, Steps
from tpuprof.goodput.vocabulary import (
    CUSTOM,
    DATA,
    KINDS,
    OTHER,
    PARTS,
    PRODUCTIVE,
    RECOVERY,
    RESTORE,
    SAVE,
    STALL,
    STARTUP,
    WASTED,
)
from tpuprof.units import NS_PER_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

# A step stalls if it takes this many times the median of its attempt (ratio): the watchdog calls it a hang then.
STALL_FACTOR = 10
# Steps of an attempt from which its median means something (steps).
STALL_MIN_STEPS = 8


@dataclass
class Account:
    """Nanoseconds by kind; `custom` splits marked phases and stalls, `parts` the productive steps.

    `kept_steps` counts steps that were not done again, `disruptions` attempts that another one followed.
    `damaged` says that no step of one of the attempts can be read, because its ledger is damaged.
    """

    kinds: dict[str, int] = field(default_factory=lambda: {kind.name: 0 for kind in KINDS})
    custom: dict[str, int] = field(default_factory=dict)
    parts: dict[str, int] = field(default_factory=dict)
    kept_steps: int = 0
    wasted_steps: int = 0
    last_step: int | None = None
    disruptions: int = 0
    damaged: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def wall_ns(self) -> int:
        """All time since the first attempt's start."""
        return sum(self.kinds.values())

    @property
    def goodput(self) -> float | None:
        """Share of productive steps in all time, None where no time passed, or an attempt's steps cannot be read."""
        return self.kinds[PRODUCTIVE] / self.wall_ns if self.wall_ns and not self.damaged else None

    def add(self, kind: str, nanoseconds: int) -> None:
        """Count time of a kind."""
        self.kinds[kind] += int(nanoseconds)


def account(attempts: list[Attempt], *, stalls: bool = True) -> Account:
    """The account of a job's attempts, in the order in which they started. `stalls` tells steps that hung apart."""
    total = Account(
        disruptions=max(0, len(attempts) - 1), damaged=any(attempt.damaged for attempt in attempts)
    )
    for at, attempt in enumerate(attempts):
        later = attempts[at + 1 :]
        _attempt(total, attempt, _kept(total, attempt, later), followed=bool(later), stalls=stalls)
        total.notes += attempt.notes
        if later:
            _gap(total, attempt, later[0])
    return total


def _kept(total: Account, attempt: Attempt, later: list[Attempt]) -> NDArray[np.bool_]:
    """Which steps no later attempt did again."""
    number = attempt.steps.number
    again = [int(each.steps.number[0]) for each in later if len(each.steps.number)]
    if not again or not len(number):
        return np.ones(len(number), bool)
    if attempt.numbered and all(each.numbered for each in later):
        return number < min(again)
    # Steps are only counted. What was saved last is what the next attempt can have begun from.
    saved = [span.end_ns for span in attempt.spans if span.kind == SAVE]
    if saved and any(span.kind == RESTORE for each in later for span in each.spans):
        total.notes.append(
            f"{attempt.name}: steps have no numbers; what follows the last save counts as done again"
        )
        return attempt.steps.end_ns <= max(saved)
    total.notes.append(
        f"{attempt.name}: it is unknown which steps were done again: mark them by `tpuprof.step(number)`"
    )
    return np.ones(len(number), bool)


def _gap(total: Account, before: Attempt, after: Attempt) -> None:
    end = before.end_ns if before.wall_end_ns is None else before.wall_end_ns
    gap = after.start_ns - end
    if gap < 0:
        total.notes.append(
            f"{after.name}: it started {-gap / NS_PER_S:.1f} s before the last sign of life of the attempt before it"
        )
    total.add(RECOVERY, max(0, gap))


def _attempt(
    total: Account, attempt: Attempt, kept: NDArray[np.bool_], *, followed: bool, stalls: bool
) -> None:
    steps = attempt.steps
    lengths = steps.end_ns - steps.start_ns
    total.kept_steps += int(kept.sum())
    total.wasted_steps += int((~kept).sum())
    if kept.any() and attempt.numbered:
        total.last_step = max(total.last_step or 0, int(steps.number[kept].max()))
    total.add(WASTED, int(lengths[~kept].sum()))
    _steps(total, attempt, kept, lengths, stalls=stalls)
    _around_steps(total, attempt, followed=followed)


def _steps(
    total: Account, attempt: Attempt, kept: NDArray[np.bool_], lengths: Numbers, *, stalls: bool
) -> None:
    """Split the kept steps. Each piece is cut out of what is left of its step, so that none is counted twice."""
    steps = attempt.steps
    left = np.where(kept, lengths, 0)
    for span in (each for each in attempt.spans if each.custom):
        _take(total, span.kind, _inside(steps, span), left, custom=True)
    compiles = steps.compile_ns
    _take(total, STARTUP, _first_step_extra(kept, left) if compiles is None else compiles, left)
    for span in (each for each in attempt.spans if not each.custom):
        _take(total, span.kind, _inside(steps, span), left)
    if steps.input_ns is not None:
        _take(total, DATA, steps.input_ns, left)
    if stalls and kept.sum() >= STALL_MIN_STEPS:
        usual = int(np.sort(left[kept])[int(kept.sum()) // 2])
        _take(total, STALL, np.where(left > STALL_FACTOR * usual, left - usual, 0), left, custom=True)
    total.add(PRODUCTIVE, int(left.sum()))
    for column, part in PARTS.items():
        if column in steps.parts:
            spent = np.minimum(np.maximum(steps.parts[column], 0), left)
            total.parts[part] = total.parts.get(part, 0) + int(spent.sum())


def _take(total: Account, kind: str, wanted: Numbers, left: Numbers, *, custom: bool = False) -> None:
    taken = np.minimum(np.maximum(wanted, 0), left)
    left -= taken
    amount = int(taken.sum())
    if custom:
        total.custom[kind] = total.custom.get(kind, 0) + amount
    total.add(CUSTOM if custom else kind, amount)


def _inside(steps: Steps, span: Span) -> Numbers:
    """How much of each step a span covers."""
    covered = np.zeros(len(steps.number), np.int64)
    first = int(np.searchsorted(steps.end_ns, span.start_ns, "right"))
    last = int(np.searchsorted(steps.start_ns, span.end_ns, "left"))
    if first < last:
        ends = np.minimum(steps.end_ns[first:last], span.end_ns)
        covered[first:last] = np.maximum(0, ends - np.maximum(steps.start_ns[first:last], span.start_ns))
    return covered


def _first_step_extra(kept: NDArray[np.bool_], left: Numbers) -> Numbers:
    """What the first kept step takes longer than the mean of the other kept steps."""
    extra = np.zeros(len(left), np.int64)
    which = np.flatnonzero(kept)
    if len(which) > 1:
        mean = int(left[which[1:]].sum()) // (len(which) - 1)
        extra[which[0]] = max(0, int(left[which[0]]) - mean)
    return extra


def _around_steps(total: Account, attempt: Attempt, *, followed: bool) -> None:
    """Name the time of an attempt that lies in no step."""
    free = _free(attempt)
    for span in attempt.spans:
        covered = 0
        rest = []
        for start, end in free:
            low, high = max(start, span.start_ns), min(end, span.end_ns)
            if low >= high:
                rest.append((start, end))
                continue
            covered += high - low
            rest += [piece for piece in ((start, low), (high, end)) if piece[0] < piece[1]]
        free = rest
        if span.custom:
            total.custom[span.kind] = total.custom.get(span.kind, 0) + covered
        total.add(CUSTOM if span.custom else span.kind, covered)
    # What follows the last whole step of an attempt that was cut off is a step whose work is lost.
    cut_off = followed and attempt.ended in ("", "signal") and len(attempt.steps.number) > 0
    last = int(attempt.steps.end_ns[-1]) if cut_off else None
    for start, end in free:
        lost = last is not None and start >= last
        total.add(WASTED if lost else OTHER, end - start)


def _free(attempt: Attempt) -> list[tuple[int, int]]:
    """The pieces of an attempt that lie in no step. Steps are in order and do not overlap."""
    starts, ends = attempt.steps.start_ns, attempt.steps.end_ns
    edges = np.concatenate(([attempt.start_ns], ends))
    until = np.concatenate((starts, [attempt.end_ns]))
    gaps = np.flatnonzero(until > edges)
    return [(int(edges[at]), int(until[at])) for at in gaps]
