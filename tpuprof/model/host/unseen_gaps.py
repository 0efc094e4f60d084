"""Time between two calls of the framework in which nobody looked, told by looks between the same calls elsewhere.

Calls are events (JAX), so a gap between two of them is the program's own. Samples come less often than gaps: one that
comes in the call before, as in a read, says nothing of the gap. But a step's gaps repeat, and looks come at any moment
of them: those of all gaps between the same two calls tell together what each of them holds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise

import numpy as np

from tpuprof.model.host.op_cost import Sample
from tpuprof.model.host.sample_events import BLOCKING
from tpuprof.model.host.stacks import COMPILING, FRAMEWORK
from tpuprof.model.intervals import Int64, Spans
from tpuprof.model.timeline import Track
from tpuprof.records import record
from tpuprof.units import PS_PER_US

# Gaps shorter than this are the way from one call to the next (ps): `EAGER_PAUSE_PS`, up to which they are `dispatch`.
LONG_FROM_PS = 300 * PS_PER_US
# Looks in gaps between the same calls from which they tell what the others hold (looks). A judgement.
LOOKS_TO_TELL = 4
# Looks that one gap is known by at most (looks): more make more pieces, and gaps take turns at them.
LOOKS_PER_GAP = 8
# Gaps between the same calls hold the same while they are about as long (ratio): one that holds a checkpoint too is of
# another kind.
ALIKE_WITHIN = 4.0

# Start, end (ps), kind, stack.
Piece = tuple[int, int, str, int]


@record(frozen=True)
class _Look:
    """One look at the thread in a gap: how far into it (share), the kind of time and the stack seen."""

    share: float
    kind: str
    stack: int


@record(frozen=True)
class _Gaps:
    """Gaps worth telling (ps), in order, and for each which others hold the same (label)."""

    start: Int64
    end: Int64
    label: Int64


def told_by_others(
    pieces: list[Piece], samples: list[Sample], driver: Track, unexplained: Spans, kinds: frozenset[str]
) -> tuple[list[Piece], list[Piece]]:
    """The pieces outside of what others tell better, and what those tell instead, both in order.

    `kinds` are of pieces that stay wherever they are: waits for Python's lock show in what other threads do.
    """
    gaps = _long_gaps(driver, unexplained)
    looks = _looks(gaps, samples, pieces)
    tell: dict[int, list[_Look]] = {}
    for number, found in looks.items():
        tell.setdefault(int(gaps.label[number]), []).extend(found)
    tell = {
        label: sorted(found, key=lambda each: each.share)
        for label, found in tell.items()
        if len(found) >= LOOKS_TO_TELL
    }
    first, last = (pieces[0][0], pieces[-1][1]) if pieces else (0, 0)
    told: list[Piece] = []
    for number in range(len(gaps.start)):
        start, end = max(int(gaps.start[number]), first), min(int(gaps.end[number]), last)
        others = tell.get(int(gaps.label[number]))
        if others is None or start >= end:
            continue
        own = {each.stack for each in looks.get(number, ())}
        for begin, until in _unseen(pieces, start, end, own, kinds):
            told += _as_seen(_in_turn(others, number), gaps, number, begin, until)
    return _without(pieces, told), told


def _long_gaps(driver: Track, unexplained: Spans) -> _Gaps:
    chosen = unexplained.end - unexplained.start >= LONG_FROM_PS
    start, end = unexplained.start[chosen], unexplained.end[chosen]
    by_end, by_start = np.argsort(driver.end, kind="stable"), np.argsort(driver.start, kind="stable")
    names = np.append(driver.name_row, -1)
    before = np.searchsorted(driver.end[by_end], start, "right") - 1
    after = np.searchsorted(driver.start[by_start], end, "left")
    before = names[np.where(before >= 0, np.append(by_end, -1)[before], -1)]
    after = names[np.append(by_start, -1)[after]]
    size = np.floor(np.log(np.maximum(end - start, 1)) / np.log(ALIKE_WITHIN)).astype(np.int64)
    _, label = np.unique(np.stack([before, after, size], axis=1), axis=0, return_inverse=True)
    return _Gaps(start, end, label.reshape(-1))


def _looks(gaps: _Gaps, samples: list[Sample], pieces: list[Piece]) -> dict[int, list[_Look]]:
    """The looks in each gap; only those that came where the thread was, and not where it let go of Python's lock."""
    found: dict[int, list[_Look]] = {}
    begins = np.array([piece[0] for piece in pieces], np.int64)
    for each in samples:
        if not each.prompt or each.stack < 0 or each.in_call or each.family == COMPILING:
            continue
        at = each.at - each.late
        number = int(np.searchsorted(gaps.start, at, "right")) - 1
        if number < 0 or at >= gaps.end[number]:
            continue
        row = int(np.searchsorted(begins, at, "right")) - 1
        same = row >= 0 and at < pieces[row][1] and pieces[row][3] == each.stack
        kind = pieces[row][2] if same else _kind(each)
        length = int(gaps.end[number] - gaps.start[number])
        share = (at - int(gaps.start[number])) / length
        found.setdefault(number, []).append(_Look(share, kind, each.stack))
    return found


def _kind(each: Sample) -> str:
    if each.family in BLOCKING:
        return each.family
    if each.family == FRAMEWORK:
        return "tracing"
    return "wait" if each.asleep else "python"


def _unseen(
    pieces: list[Piece], start: int, end: int, own: set[int], kinds: frozenset[str]
) -> list[tuple[int, int]]:
    """What of a gap no piece of a stack that was seen in it covers (ps)."""
    at, found = start, []
    for begin, until, kind, stack in _within(pieces, start, end):
        if stack in own or kind in kinds:
            if begin > at:
                found.append((at, begin))
            at = max(at, until)
    return [*found, (at, end)] if at < end else found


def _within(pieces: list[Piece], start: int, end: int) -> list[Piece]:
    """The pieces that reach into a span; they come in order and do not overlap."""
    row = max(bisect_right(pieces, (start,)) - 1, 0)
    # By number: a slice up to the end would copy all that follows, for each of the spans that are asked for.
    until = bisect_left(pieces, (end,), row)
    return [piece for piece in pieces[row:until] if piece[1] > start]


def _in_turn(looks: list[_Look], number: int) -> list[_Look]:
    """The looks that one gap is known by: all, or every so many of them, from another one on in each gap."""
    stride = -(-len(looks) // LOOKS_PER_GAP)
    return looks[number % stride :: stride]


def _as_seen(looks: list[_Look], gaps: _Gaps, number: int, begin: int, until: int) -> list[Piece]:
    """A stretch of a gap by the looks nearest to each of its moments."""
    start, length = int(gaps.start[number]), int(gaps.end[number] - gaps.start[number])
    edges = [start + round((one.share + other.share) / 2 * length) for one, other in pairwise(looks)]
    found = []
    for each, low, high in zip(looks, [start, *edges], [*edges, start + length], strict=True):
        if max(low, begin) < min(high, until):
            found.append((max(low, begin), min(high, until), each.kind, each.stack))
    return found


def _without(pieces: list[Piece], told: list[Piece]) -> list[Piece]:
    """The pieces without the time of others; both come in order."""
    left: list[Piece] = []
    for begin, until, kind, stack in pieces:
        at = begin
        for low, high, *_ in _within(told, begin, until):
            if low > at:
                left.append((at, low, kind, stack))
            at = max(at, high)
        if at < until:
            left.append((at, until, kind, stack))
    return left
