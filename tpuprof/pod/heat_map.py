"""Hosts by steps, brought together until a browser can draw it."""

from __future__ import annotations

import numpy as np

from tpuprof.pod.lateness import Lateness
from tpuprof.report.pod import HeatMap
from tpuprof.units import PS_PER_MS

# Cells at most (cells): 1,024 hosts by 128 stretches of steps. A browser draws them in well under a second, and their
# JSON stays below a megabyte.
CELLS = 131_072
# Steps are not brought together below this many columns, however many hosts there are (columns).
COLUMNS_AT_LEAST = 32


def heat_map(compared: list[Lateness]) -> HeatMap:
    """Lateness of the largest set of hosts that run one program; empty where none can be compared."""
    if not compared:
        return HeatMap()
    found = compared[0]
    steps = len(found.number)
    columns = min(steps, max(CELLS // len(found.hosts), COLUMNS_AT_LEAST))
    width = -(-steps // columns)
    begin = np.arange(0, steps, width)
    # The latest of a stretch: one late step in a thousand is what one looks for.
    late = np.maximum.reduceat(found.late_ps, begin, axis=1) / PS_PER_MS
    return HeatMap(
        hosts=found.hosts,
        steps=found.number[begin].tolist(),
        steps_per_column=width,
        late_ms=np.round(late, 3).tolist(),
    )


def skew_ms(compared: list[Lateness]) -> float | None:
    """Median over steps of how much later the last host is than the first, of the largest set of hosts."""
    if not compared:
        return None
    late = compared[0].late_ps
    return float(np.median(late.max(axis=0) - late.min(axis=0))) / PS_PER_MS
