"""How sure a difference between two runs is: a bootstrap over blocks of steps, and what runs differ by anyway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Resamples of each run. The bounds of a 95 % interval then rest on 50 resamples beyond each (resamples).
RESAMPLES = 2_000
# Two-sided confidence of the bounds (share).
CONFIDENCE = 0.95
# One seed for all, so that the same two runs always give the same bounds.
SEED = 20_261_121
# Fewer steps than this say nothing of their own spread (steps).
MIN_STEPS = 4


@dataclass(frozen=True)
class Change:
    """A quantity in two runs, and its change with bounds. `low` and `high` are None where they cannot be known."""

    base: float
    candidate: float
    low: float | None
    high: float | None

    @property
    def delta(self) -> float:
        """Candidate less base."""
        return self.candidate - self.base

    @property
    def ratio(self) -> float | None:
        """The change as a share of the base, None where that is zero."""
        return self.delta / self.base if self.base else None

    @property
    def beyond_noise(self) -> bool:
        """Whether the bounds exclude "no change"."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def compare(base: Floats, candidate: Floats, statistic: Callable[[Floats], Floats]) -> Change:
    """The change of a statistic over steps, with bounds by a circular block bootstrap.

    `statistic` maps samples [resamples, steps] to one value a row. Steps follow each other and a slow one is
    often followed by another, so whole blocks of neighbours are drawn; blocks of n^(1/3) steps, the rate that is
    best for the variance of a mean (Künsch 1989; Politis and Romano 1992 for the circular form). The bounds are
    widened by t/z for the few blocks a capture has, since percentiles of a small sample lie too close together
    (Hesterberg 2015, "What Teachers Should Know About the Bootstrap", section 3.2). They end where nothing is left.
    """
    here, there = (float(statistic(each[None, :])[0]) for each in (base, candidate))
    if min(len(base), len(candidate)) < MIN_STEPS:
        return Change(here, there, None, None)
    generator = np.random.default_rng(SEED)
    first, second = (statistic(each[_draws(len(each), generator)]) for each in (base, candidate))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(second - first, [tail, 1 - tail])
    delta = there - here
    wider = _small_sample_factor(min(len(base), len(candidate)))
    bounds = delta - (delta - float(low)) * wider, delta + (float(high) - delta) * wider
    # Widening knows no zero, and no time gets shorter by more than there was.
    return Change(here, there, *(max(each, -here) for each in bounds))


def two_by_two(steps: Floats) -> Floats:
    """The mean of each step and the next: one row fewer. A single step has no next, and stays as it is.

    PyTorch/XLA's host runs a step ahead and then waits for two, so that steps are long and short by turns; the median
    of such steps is anywhere between.
    """
    return (steps[1:] + steps[:-1]) / 2 if len(steps) > 1 else steps


def medians(samples: Floats) -> Floats:
    """The median of each row."""
    return np.asarray(np.median(samples, axis=1))


def means(samples: Floats) -> Floats:
    """The mean of each row."""
    return np.asarray(samples.mean(axis=1))


def percentiles_95(samples: Floats) -> Floats:
    """The 95th percentile of each row."""
    return np.asarray(np.percentile(samples, 95, axis=1))


def block_length(steps: int) -> int:
    """Steps drawn together."""
    return max(1, round(float(np.cbrt(steps))))


def _draws(steps: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Rows of step numbers, each as many as there are steps, made of blocks that wrap around the end."""
    length = block_length(steps)
    blocks = -(-steps // length)
    starts = generator.integers(0, steps, (RESAMPLES, blocks))
    rows = (starts[:, :, None] + np.arange(length)) % steps
    return np.asarray(rows.reshape(RESAMPLES, -1)[:, :steps], np.int64)


# Student's t at 97.5 % by degrees of freedom, from any table of it; 1.960 is the normal.
_FREEDOM = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 60, 1000)
_T_975 = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.306, 2.228, 2.131, 2.086, 2.042, 2.000, 1.962)


def _small_sample_factor(steps: int) -> float:
    """How much wider the bounds of so few steps must be: t/z, times sqrt(n / (n - 1)) for the sample's spread.

    n is the number of blocks: neighbours within one say the same twice.
    """
    pieces = steps / block_length(steps)
    t = float(np.interp(pieces - 1, _FREEDOM, _T_975))
    return float(t / 1.96 * np.sqrt(pieces / (pieces - 1)))
