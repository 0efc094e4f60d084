"""Whether steps take the same time: outliers and what is special in each, drift, and the profiler's own effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from tpuprof import parts as part
from tpuprof.model.intervals import Int64
from tpuprof.model.median import median
from tpuprof.records import record

# Modified z-score from which a value is an outlier (Iglewicz and Hoaglin, "How to Detect and Handle Outliers",
# 1993): 0.6745 makes the median absolute deviation comparable with a standard deviation.
OUTLIER_Z = 3.5
_Z_SCALE = 0.6745
# An outlier must also be this much longer than the median (ratio): on steps that hardly vary at all, noise of a
# percent has a high z-score and costs nothing.
OUTLIER_FACTOR = 1.2
# Fewer steps than this have no meaningful spread (steps).
MIN_STEPS = 5
# Drift counts from this change between the first and the last step (share of the median) ...
DRIFT_FROM = 0.05
# ... and this confidence that the trend is none of chance (two-sided p-value of the Mann-Kendall test).
DRIFT_P = 0.01
# Parts named as the reason of an outlier: those that hold at least this share of the excess.
REASON_SHARE = 0.2
# Share of an outlier's excess that the device's work of earlier steps must hold for the step to be no slow one: most.
EARLIER_FROM_SHARE = 0.5
# Parts that grow where the host waits for programs of earlier steps.
_OF_THE_QUEUE = (*part.DEVICE_PARTS, part.HOST_SYNC)
# Outliers that are looked into, the longest ones: nobody reads more, and a day of training has thousands (steps).
MAX_OUTLIERS = 100


@record(frozen=True)
class Outlier:
    """A step much longer than the others: its row, the excess over the median step, and the parts that grew (ps).

    `earlier_ps` is the device's work of steps before, where the host waits for that and it explains the excess; parts
    of the device and waits for it are then no reasons of their own.
    """

    row: int
    excess_ps: int
    reasons: list[tuple[str, int]] = field(default_factory=list)
    earlier_ps: int = 0


@record(frozen=True)
class Drift:
    """A trend over the run: change from the first to the last step in ps (Theil-Sen) and its p-value."""

    change_ps: int
    p_value: float


def find_outliers(
    wall: Int64, parts: Mapping[str, Int64], earlier: Int64 | None = None
) -> tuple[list[Outlier], int]:
    """The longest steps that stand out, longest first, with what each had more of than the median step; and how many
    stand out in all.

    `earlier` is the device's work in each step that was handed over before it (ps), None where that is unknown.
    """
    if len(wall) < MIN_STEPS:
        return [], 0
    middle = median(wall)
    deviation = median(np.abs(wall - middle))
    score = np.full(len(wall), np.inf) if not deviation else _Z_SCALE * (wall - middle) / deviation
    rows = np.flatnonzero((score > OUTLIER_Z) & (wall > OUTLIER_FACTOR * middle))
    usual = {name: median(column) for name, column in parts.items()}
    found = []
    for row in rows[np.argsort(-wall[rows], kind="stable")][:MAX_OUTLIERS].tolist():
        excess = int(wall[row] - middle)
        waited = int(earlier[row]) if earlier is not None else 0
        waited = waited if waited >= EARLIER_FROM_SHARE * excess else 0
        more = [
            (name, int(column[row] - usual[name]))
            for name, column in parts.items()
            if not (waited and name in _OF_THE_QUEUE)
        ]
        reasons = sorted(
            (each for each in more if each[1] >= REASON_SHARE * excess), key=lambda each: -each[1]
        )
        found.append(Outlier(row, excess, reasons, waited))
    return found, len(rows)


def find_drift(wall: Int64) -> Drift | None:
    """The trend of step times, None where there is none worth telling.

    Slope by Theil and Sen (the median of all pairwise slopes), tested by Mann and Kendall: both ignore outliers.
    """
    count = len(wall)
    if count < 2 * MIN_STEPS:
        return None
    # Pairs grow with the square of the steps: past this many, every k-th step tells the same trend.
    thin = wall[:: -(-count // 400)].astype(np.float64)
    rows, columns = np.triu_indices(len(thin), 1)
    differences = thin[columns] - thin[rows]
    slope = median(differences / (columns - rows))
    change = slope * (len(thin) - 1)
    p_value = _mann_kendall(int(np.sign(differences).sum()), len(thin))
    if abs(change) < DRIFT_FROM * median(wall) or p_value >= DRIFT_P:
        return None
    return Drift(int(change), p_value)


def _mann_kendall(score: int, count: int) -> float:
    """Two-sided p-value of the sum of signs of all pairs, by the normal approximation."""
    variance = count * (count - 1) * (2 * count + 5) / 18
    z = max(abs(score) - 1, 0) / variance**0.5
    from math import erfc

    return erfc(z / 2**0.5)


def profiler_effect(captured_ns: list[int], free_ns: list[int]) -> float | None:
    """Median captured step over median steady step without capture (ratio); None without three of each."""
    if len(captured_ns) < 3 or len(free_ns) < 3:
        return None
    return float(np.median(captured_ns) / np.median(free_ns))
