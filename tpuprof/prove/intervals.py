"""How sure a mean of paired differences is: Student's t, wide enough for every look that is taken."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache

from tpuprof.records import record

# Probability that a change of nothing is taken for a saving, over all looks together (two-sided, share). One in a
# hundred: a wrong "confirmed" costs more than another block of runs.
ERROR = 0.01
# Slices of the numeric integral of Student's density (count): its error is then below 1e-9.
_SLICES = 2_000


@record(frozen=True)
class Interval:
    """A mean with bounds, in the values' unit."""

    mean: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half of its width."""
        return (self.high - self.low) / 2


def interval(differences: Sequence[float], looks: int) -> Interval | None:
    """The mean of paired differences with bounds that hold at all of `looks` looks; None of fewer than three.

    Bounds are by Student's t. Looking again after each block and stopping at the first clear answer makes errors more
    likely; the permitted error is therefore divided by the number of looks (Bonferroni).
    """
    if len(differences) < 3:
        return None
    mean = statistics.fmean(differences)
    spread = statistics.stdev(differences) / math.sqrt(len(differences))
    half = t_quantile(1 - ERROR / max(looks, 1) / 2, len(differences) - 1) * spread
    return Interval(mean, mean - half, mean + half)


@lru_cache(maxsize=256)
def t_quantile(share: float, freedom: int) -> float:
    """The quantile of Student's t above one half, by bisection."""
    low, high = 0.0, 1.0
    while _t_share(high, freedom) < share:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_share(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def _t_share(value: float, freedom: int) -> float:
    """P(T <= value) of a value above zero. With t = sqrt(n) tan(a) the integral is that of cos(a)^(n - 1)."""
    end = math.atan(value / math.sqrt(freedom))
    scale = math.gamma((freedom + 1) / 2) / (math.sqrt(math.pi) * math.gamma(freedom / 2))
    width = end / _SLICES
    total = sum(
        (1 if at in (0, _SLICES) else 4 if at % 2 else 2) * math.cos(at * width) ** (freedom - 1)
        for at in range(_SLICES + 1)
    )
    return 0.5 + scale * total * width / 3
