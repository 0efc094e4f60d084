"""Steps before a capture that waited for their device, by how long the process noted that they took."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tpuprof.model.median import median

# The time of a step over the median one from which it may be one that waits for the work of those before (ratio). Waits
# for 20 steps took 200 to 600 times the median step that is only handed over.
WAITED_FROM = 10.0
# Share of a captured wait from which an earlier step waited as well (share): steps that are only handed over took up to
# 25 times their median, and a hundredth of the wait.
OF_A_WAIT = 0.1


def steps_since_wait(first: int, walls: Mapping[int, float], wait_ms: float) -> int | None:
    """How many steps lie between the last one before number `first` that waited and that; None where none waited.

    `walls` has how long steps took without their compiles, by number (ms), `wait_ms` how long a captured one waited.
    """
    if not walls:
        return None
    from_ = max(WAITED_FROM * median(np.array(list(walls.values()))), OF_A_WAIT * wait_ms)
    waited = [number for number, took in walls.items() if 0 <= number < first and took >= from_]
    return first - max(waited) - 1 if waited else None
