"""What tpuprof costs the steps that it does not capture, from the program's own clock."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

# Steps outside the capture may be this much slower (share of the step).
AT_MOST = 0.01
# Half of the 95 % interval (share of the step) from which on a measurement cannot judge AT_MOST.
KNOWN_WITHIN = 0.01
# 97.5 % quantiles of Student's t by degrees of freedom; 1.96 beyond.
_T = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
# Steps needed behind the capture for their median to mean something.
_FEWEST = 8
# Programs needed to know how two runs of one program differ: below, the spread itself is too uncertain.
_FEWEST_PROGRAMS = 12
# A normal distribution's standard deviation over its median absolute deviation, and its 97.5 % quantile.
_SIGMA_PER_MAD = 1.4826
Z = 1.96


@dataclass(frozen=True)
class Overhead:
    """How much slower steps outside the capture are than in bare runs: a share, and half of its 95 % interval.

    `half` is None where it is unknown: one pair of runs alone does not say how two runs differ.
    """

    share: float
    half: float | None
    pairs: int

    @property
    def word(self) -> str:
        """`fine`, `slow`, or `unclear` where the measurement cannot tell."""
        if self.half is None:
            return "unclear"
        if self.share - self.half > AT_MOST:
            return "slow"
        return "fine" if self.half <= KNOWN_WITHIN and self.share <= AT_MOST else "unclear"

    def __str__(self) -> str:
        within = f" ± {self.half:.1%}" if self.half is not None else ""
        return f"{self.share:+.1%}{within} ({self.word})"


def overhead(pairs: list[tuple[list[float], list[float]]], between: float | None = None) -> Overhead | None:
    """From bare and captured step lengths, one pair a pair of runs; None if no pair has steps enough.

    With several pairs the interval is Student's over the pairs. With one it takes `between`, the standard deviation of
    such a share over programs.
    """
    usable = [pair for pair in pairs if min(map(len, pair)) >= _FEWEST]
    if not usable:
        return None
    shares = [statistics.median(b) / statistics.median(a) - 1 for a, b in usable]
    if len(shares) > 1:
        half = _T.get(len(shares) - 1, Z) * statistics.stdev(shares) / math.sqrt(len(shares))
        return Overhead(statistics.fmean(shares), half, len(shares))
    errors = [_error(each) for each in usable[0]]
    return Overhead(shares[0], None if between is None else Z * math.hypot(*errors, between), 1)


def between_runs(shares: list[float]) -> float | None:
    """How far two runs of one program differ (standard deviation, a share), from one pair of each of many programs.

    The median absolute deviation: a few programs that tpuprof really slows do not widen it. None for too few programs.
    """
    if len(shares) < _FEWEST_PROGRAMS:
        return None
    middle = statistics.median(shares)
    return _SIGMA_PER_MAD * statistics.median(abs(each - middle) for each in shares)


def over_all(shares: list[float]) -> Overhead | None:
    """The median program's cost, with the order statistics' 95 % interval; None for too few programs."""
    if len(shares) < _FEWEST_PROGRAMS:
        return None
    ordered, rank = sorted(shares), _rank(len(shares))
    middle = statistics.median(ordered)
    return Overhead(middle, max(middle - ordered[rank], ordered[-1 - rank] - middle), len(shares))


def behind(seconds: list[float], first: int, count: int) -> list[float]:
    """Lengths of the steps behind the capture, without the one in which it ends."""
    return seconds[first + count + 1 :]


def _rank(count: int) -> int:
    """The index of the ordered value that lies below the median with 97.5 % probability."""
    below, rank = 0.5**count, 0
    while below + math.comb(count, rank + 1) * 0.5**count <= 0.025:
        rank += 1
        below += math.comb(count, rank) * 0.5**count
    return rank


def _error(seconds: list[float]) -> float:
    """Standard error of the median, as a share of it."""
    middle = statistics.median(seconds)
    deviation = _SIGMA_PER_MAD * statistics.median(abs(each - middle) for each in seconds)
    return 1.2533 * deviation / math.sqrt(len(seconds)) / middle
