"""How large the graphs of each step were. torch_xla keeps the size and the time of each graph it collects.

A hash would tell graphs apart for certain, but torch_xla computes one by walking the graph again: 0.4 us per op, a
tenth of what the cut itself takes. Two steps with different sizes ran different graphs; equal sizes prove nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuprof.ledger.rows import UNKNOWN, Row
from tpuprof.units import NS_PER_S


class GraphSizes:
    """Shares the sizes that were collected since the last call out to steps, by time."""

    def __init__(self) -> None:
        self._seen = 0
        # Sizes of the step that has not ended: (time, ops), and the time before which some are lost.
        self._open: list[tuple[int, int]] = []
        self._lost_until = 0

    def of_steps(self, rows: Sequence[Row], data: Any, offset_ns: int) -> list[int]:
        """Ops in the graphs of each row; `UNKNOWN` where torch_xla counts none or has forgotten some.

        `data` is the metric: how many sizes there were, their sum, and the newest as (seconds since the epoch, ops).
        `offset_ns` leads from the clock of the rows to the epoch.
        """
        if not data:
            return [UNKNOWN] * len(rows)
        self._take(int(data[0]), data[2], offset_ns)
        found = [self._of(row) for row in rows]
        if rows:
            end = rows[-1].start_ns + rows[-1].duration_ns
            self._open = [each for each in self._open if each[0] >= end]
        return found

    def _take(self, count: int, samples: Sequence[tuple[float, float]], offset_ns: int) -> None:
        new = max(0, count - self._seen)
        self._seen = count
        sizes = [(int(NS_PER_S * at) - offset_ns, int(ops)) for at, ops in samples[-new:]] if new else []
        if new > len(sizes):
            self._lost_until = sizes[0][0] if sizes else self._lost_until
        self._open += sizes

    def _of(self, row: Row) -> int:
        if row.start_ns < self._lost_until:
            return UNKNOWN
        end = row.start_ns + row.duration_ns
        return sum(ops for at, ops in self._open if row.start_ns <= at < end)
