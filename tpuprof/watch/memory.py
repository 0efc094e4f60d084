"""Says when memory grows steadily: its least value rises from block to block of steps, at one of several scales."""

from __future__ import annotations

import itertools
from collections import deque

from tpuprof.ledger.rows import Row
from tpuprof.watch.anomalies import Settings

# Blocks in a row that must rise (count): by chance, eight values are in order once in 40,000.
BLOCKS = 8
# Share of the growth that each half of the blocks must show.
EVEN = 0.25
COLUMNS = {"device_bytes": "device", "host_bytes": "host"}


class _Scale:
    """Least values of blocks of `size` steps."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._least: deque[float] = deque(maxlen=BLOCKS)
        self._current: float | None = None
        self._count = 0

    def add(self, value: float) -> bool:
        """Take a value in; whether a block is full."""
        self._current = value if self._current is None else min(self._current, value)
        self._count += 1
        if self._count < self.size:
            return False
        self._least.append(self._current)
        self._current, self._count = None, 0
        return True

    def growth(self, share: float, least: float) -> float | None:
        """By how much all blocks rose, None where they did not, or by too little."""
        values = list(self._least)
        if len(values) < BLOCKS or any(b <= a for a, b in itertools.pairwise(values)):
            return None
        grown = values[-1] - values[0]
        # A leak goes on: a jump in one half, a cache that fills or our own recording, say, does not count.
        half = values[BLOCKS // 2] - values[0]
        even = EVEN * grown <= half <= (1 - EVEN) * grown
        return grown if even and grown > max(share * values[0], least) else None

    def clear(self) -> None:
        """Begin again."""
        self._least.clear()


class MemoryGrowth:
    """Fed with rows; tells where memory grew, by how many bytes, in how many steps."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._scales = {name: [_Scale(size) for size in settings.memory_blocks] for name in COLUMNS}

    def feed(self, row: Row) -> tuple[str, int, int] | None:
        """A step ended."""
        for name, title in COLUMNS.items():
            value = getattr(row, name)
            if value <= 0:
                continue
            for scale in self._scales[name]:
                if not scale.add(value):
                    continue
                grown = scale.growth(self._settings.memory_share, self._settings.memory_bytes)
                if grown is not None:
                    for each in self._scales[name]:
                        each.clear()
                    return title, int(grown), BLOCKS * scale.size
        return None
