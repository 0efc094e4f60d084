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


@dataclass(frozen=True)
class Overhead:
    """How much slower steps behind the capture are than in bare runs: a share, and half of its 95 % interval."""

    share: float
    half: float
    pairs: int

    @property
    def word(self) -> str:
        """`fine`, `slow`, or `unclear` where the measurement cannot tell."""
        if self.share - self.half > AT_MOST:
            return "slow"
        return "fine" if self.half <= KNOWN_WITHIN and self.share <= AT_MOST else "unclear"

    def __str__(self) -> str:
        return f"{self.share:+.1%} ± {self.half:.1%} ({self.word})"


def overhead(pairs: list[tuple[list[float], list[float]]]) -> Overhead | None:
    """From bare and captured step lengths, one pair a pair of runs; None if no pair has steps enough.

    Only the last half of the steps is compared: the capture is before them. With several pairs the interval is
    Student's over the pairs, with one it is that of the two medians, which does not know how runs differ.
    """
    halves = [(_last_half(bare), _last_half(captured)) for bare, captured in pairs]
    usable = [(a, b) for a, b in halves if min(len(a), len(b)) >= _FEWEST]
    if not usable:
        return None
    shares = [statistics.median(b) / statistics.median(a) - 1 for a, b in usable]
    if len(shares) == 1:
        bare, captured = usable[0]
        half = 1.96 * math.hypot(_error(bare), _error(captured))
    else:
        spread = statistics.stdev(shares) / math.sqrt(len(shares))
        half = _T.get(len(shares) - 1, 1.96) * spread
    return Overhead(statistics.fmean(shares), half, len(shares))


def _last_half(seconds: list[float]) -> list[float]:
    return seconds[len(seconds) // 2 :]


def _error(seconds: list[float]) -> float:
    """Standard error of the median, as a share of it."""
    middle = statistics.median(seconds)
    deviation = 1.4826 * statistics.median(abs(each - middle) for each in seconds)
    return 1.2533 * deviation / math.sqrt(len(seconds)) / middle
