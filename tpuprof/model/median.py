"""The median of numbers."""

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
