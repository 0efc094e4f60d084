"""The last values: `Rolling` keeps them sorted, for what is asked at each step; `Recent` sorts when it is asked."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

# Half the distance between the quartiles of a normal distribution, in standard deviations.
_QUARTILE = 0.6745


class Recent:
    """The last `size` values, for medians that only an anomaly asks for: a new value costs a tenth of a microsecond."""

    def __init__(self, size: int) -> None:
        self._order: deque[float] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self._order)

    def add(self, value: float) -> None:
        """Take a value in; the oldest leaves."""
        self._order.append(value)

    def clear(self) -> None:
        """Forget all values."""
        self._order.clear()

    def last(self, count: int) -> list[float]:
        """The newest values, oldest first."""
        return list(self._order)[-count:]

    def median(self) -> float:
        """The middle value, 0 without any."""
        return _middle(sorted(self._order))


class Rolling(Recent):
    """The same, kept sorted: each new value costs a few microseconds."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._sorted: list[float] = []

    def add(self, value: float) -> None:
        """Take a value in; the oldest leaves."""
        if len(self._order) == self._order.maxlen:
            del self._sorted[bisect_left(self._sorted, self._order[0])]
        super().add(value)
        insort(self._sorted, value)

    def clear(self) -> None:
        """Forget all values."""
        super().clear()
        self._sorted.clear()

    def median(self) -> float:
        """The middle value, 0 without any."""
        return _middle(self._sorted)

    def spread(self) -> float:
        """What the standard deviation would be if values were normal: from the quartiles, so outliers do not count."""
        count = len(self._sorted)
        if count < 4:
            return 0.0
        return (self._sorted[(3 * count) // 4] - self._sorted[count // 4]) / (2 * _QUARTILE)


def _middle(ordered: list[float]) -> float:
    return ordered[len(ordered) // 2] if ordered else 0.0
