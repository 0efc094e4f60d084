"""Finds the sequence that repeats in a row of labels: graphs that a host cuts, programs that a device runs.

The search is by autocorrelation: at the right distance, most labels equal the one that far behind them. An extra
program or a missing one disturbs only the repetition it is in.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.intervals import Bool, Int64
from tpuprof.records import record

# Fewer repetitions than this do not make a period.
MIN_REPEATS = 3
# Share of labels that must equal the label one period before, or nothing repeats. An evaluation of any length every
# few steps breaks one or two repetitions in five.
REPEATS_FROM_SHARE = 0.6
# Labels in no order are often equal, too: 62 % of them where one of two labels is three times as frequent. Of what is
# beyond that chance, so much must be equal at a distance of several labels (share). Prefill and decode in any order
# reach a third of it at one of 20 distances, steps with an evaluation every few of them half. A judgement.
BEYOND_CHANCE_FROM_SHARE = 0.4
# A shorter period is taken where it fits nearly as well as the best (share of labels): 32 micro-batches and one
# update repeat after 33 programs, not after 1, which fits 94 % of them.
AS_GOOD_WITHIN = 0.02
# Share of labels, or of time, that whole repetitions must hold to be trusted as steps.
EXPLAINS_FROM_SHARE = 0.9
# Labels that are looked at to find the period; a longer row repeats what these show (labels).
MAX_LABELS = 1 << 18
# Random projections that estimate the share of equal labels; their error is about 1/sqrt(labels x projections).
_PROJECTIONS = 8
_ESTIMATE_WITHIN = 0.1
# Distances that are checked exactly (count).
_MAX_CHECKED = 256


# A repetition may be this much longer or shorter than the period (share of it) to be one all the same: a step that ran
# another program, or a few more, is a step.
ODD_WITHIN = 0.5


@record(frozen=True)
class Repetition:
    """Repetitions of `word`: where each begins in the row of labels (`first`) and ends (`until`).

    `held` tells which labels lie in a repetition and belong to the word. Between two repetitions may lie others.
    """

    word: tuple[int, ...]
    first: Int64
    until: Int64
    held: Bool

    @property
    def width(self) -> int:
        """Labels in one repetition."""
        return len(self.word)

    @property
    def share(self) -> float:
        """Share of labels that repetitions hold, of those from the first repetition to the end of the last."""
        return float(self.held[self.first[0] : self.until[-1]].mean())


def find_repetition(labels: Int64) -> Repetition | None:
    """The word that repeats in the labels, None where none does three times."""
    if len(labels) < MIN_REPEATS:
        return None
    _, codes = np.unique(labels, return_inverse=True)
    codes = codes.reshape(-1).astype(np.int64)
    period = _period(codes[:MAX_LABELS])
    if period is None:
        return None
    at = _apart(_anchors(codes, period), period)
    if len(at) < MIN_REPEATS:
        return None
    word = codes[at[0] : at[0] + period]
    first, until = _with_odd_ones(at, period, len(codes))
    inside = np.zeros(len(codes) + 1, np.int64)
    np.add.at(inside, first, 1)
    np.add.at(inside, until, -1)
    held = (np.cumsum(inside[:-1]) > 0) & np.isin(codes, word)
    return Repetition(tuple(labels[at[0] : at[0] + period].tolist()), first, until, held)


def _with_odd_ones(at: Int64, period: int, count: int) -> tuple[Int64, Int64]:
    """Beginning and end of each repetition, those that differ from the others included."""
    gap = np.diff(at) - period
    odd = np.flatnonzero((gap >= (1 - ODD_WITHIN) * period) & (gap <= (1 + ODD_WITHIN) * period))
    first = np.sort(np.concatenate((at, at[odd] + period)))
    follow = np.append(first[1:], count)
    near = follow - first <= (1 + ODD_WITHIN) * period
    near[-1] = False
    return first, np.where(near, follow, np.minimum(first + period, count))


def _period(codes: Int64) -> int | None:
    """The shortest distance at which about as many labels are equal as at the best one."""
    longest = len(codes) // MIN_REPEATS
    estimate = _equal_shares(codes, longest)
    promising = np.flatnonzero(estimate >= max(REPEATS_FROM_SHARE, estimate.max()) - _ESTIMATE_WITHIN)
    exact = [(int(row) + 1, _equal_share(codes, int(row) + 1)) for row in promising[:_MAX_CHECKED]]
    chance = _equal_by_chance(codes)
    exact = [
        each for each in exact if each[0] == 1 or each[1] - chance >= BEYOND_CHANCE_FROM_SHARE * (1 - chance)
    ]
    best = max((share for _, share in exact), default=0.0)
    if best < REPEATS_FROM_SHARE:
        return None
    return next(distance for distance, share in exact if share >= best - AS_GOOD_WITHIN)


def _equal_by_chance(codes: Int64) -> float:
    """The share of labels that equal another one, where labels come in any order."""
    return float(((np.bincount(codes) / len(codes)) ** 2).sum())


def _equal_share(codes: Int64, distance: int) -> float:
    return float((codes[distance:] == codes[:-distance]).mean())


def _equal_shares(codes: Int64, longest: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Estimated share of labels equal to the one `distance` before, for distances 1 to `longest`."""
    count = len(codes)
    size = 1 << (2 * count - 1).bit_length()
    # A fixed seed: the same trace gives the same answer.
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (_PROJECTIONS, int(codes.max()) + 1))
    total = np.zeros(longest)
    for each in signs:
        power = np.abs(np.fft.rfft(each[codes], size)) ** 2
        total += np.fft.irfft(power, size)[1 : longest + 1]
    return total / _PROJECTIONS / (count - np.arange(1, longest + 1))


def _anchors(codes: Int64, period: int) -> Int64:
    """Where repetitions begin: at whole words where most are alike, else at the longest part that most have."""
    expected = len(codes) / period
    length = period
    while True:
        at = _best_rotation(codes, length, period)
        if len(at) >= EXPLAINS_FROM_SHARE * (expected - 1) or length == 1:
            return at
        length = max(length // 2, 1)


def _best_rotation(codes: Int64, length: int, period: int) -> Int64:
    """Where the window begins that occurs most, but no more than once in a period; of several, that ends rarest.

    An update or a generator's step that runs once in the word ends it, wherever the capture began.
    """
    value = _window_values(codes, length)
    _, first, group, counts = np.unique(value, return_index=True, return_inverse=True, return_counts=True)
    once = counts <= np.ceil(len(codes) / period) if period > 1 else np.ones(len(counts), np.bool_)
    if not once.any():
        return np.empty(0, np.int64)
    near = np.flatnonzero(once & (counts >= counts[once].max() - 1))
    last = np.bincount(codes)[codes[first[near] + length - 1]]
    chosen = near[np.lexsort((first[near], last, -counts[near] if period == 1 else last))[0]]
    return np.flatnonzero(group.reshape(-1) == chosen)


def _window_values(codes: Int64, period: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """A number for each window of `period` labels, equal for equal windows: a rolling hash modulo 2**64."""
    random = np.random.default_rng(0).integers(1, 1 << 63, int(codes.max()) + 1, np.uint64)
    factor = np.uint64(0x9E3779B97F4A7C15)
    inverse = np.uint64(pow(int(factor), -1, 1 << 64))
    with np.errstate(over="ignore"):
        powers = np.multiply.accumulate(np.full(len(codes), factor, np.uint64))
        back = np.multiply.accumulate(np.full(len(codes), inverse, np.uint64))
        sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(random[codes] * powers, dtype=np.uint64)))
        value: np.ndarray[tuple[int, ...], np.dtype[np.uint64]] = (sums[period:] - sums[:-period]) * back[
            : len(codes) - period + 1
        ]
    return value


def _apart(at: Int64, period: int) -> Int64:
    """Of repetitions that overlap, the earlier ones."""
    if len(at) < 2 or (np.diff(at) >= period).all():
        return at
    kept, until = [], -1
    for position in at.tolist():
        if position >= until:
            kept.append(position)
            until = position + period
    return np.array(kept, np.int64)
