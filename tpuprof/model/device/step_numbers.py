"""What the steps of a device's own `Steps` line are called."""

from __future__ import annotations

import numpy as np

from tpuprof.model.intervals import Int64
from tpuprof.model.timeline import Track

# Digits of a number that fits (digits): a longer one is a fingerprint.
_DIGITS = 15


def step_numbers(line: Track) -> Int64:
    """The number of each step of the line, -1 where its name is not one."""
    names = [
        int(name) if name.isascii() and name.isdigit() and len(name) <= _DIGITS else -1
        for name in line.plane.events.names
    ]
    return np.array([*names, -1], np.int64)[line.name_row]
