"""The median and the 95th percentile of numbers, without numpy's masked arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def median(values: npt.NDArray[Any]) -> float:
    """What `numpy.median` gives for numbers that are all finite, of which there is at least one.

    That function looks for missing values in floats, and imports numpy's masked arrays to do so: a command that
    needs nothing else of them would wait for that import.
    """
    middle = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, middle)[middle])
    return float(np.partition(values, (middle - 1, middle))[middle - 1 : middle + 1].mean())


def percentile_95(values: npt.NDArray[Any]) -> float:
    """What `numpy.percentile(values, 95)` gives for finite numbers, of which there is at least one.

    Between two of them up to the position; that function, too, imports masked arrays.
    """
    ordered = np.sort(values)
    position = 0.95 * (len(ordered) - 1)
    below = int(position)
    low, high, part = ordered[below], ordered[min(below + 1, len(ordered) - 1)], position - below
    # From the nearer side, as numpy does: the result is then exact at both ends.
    return float(low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part))
