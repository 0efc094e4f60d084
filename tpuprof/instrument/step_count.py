"""Counts the steps of a program, of which nothing else is asked, by events that come a number of times per step."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Protocol


class Event(Protocol):
    """One kind of events."""

    def passes(self) -> bool:
        """Whether nothing more is to be done for such an event than to count it, if it is what is counted."""


class StepCount(Protocol):
    """Counts steps of one thread.

    It is made with `clock`, of which its times are (s), and with `on_end`, which is called with the time as the last of
    the steps ends, or one that is long.
    """

    @property
    def left(self) -> int:
        """Steps that are left to count."""

    @property
    def began(self) -> float:
        """When the step under way began; an old time, if any, where none is counted."""

    def of(self, event: str) -> Event:
        """Where events of this kind are to be reported, which are counted while `begin` has asked for it."""

    def begin(self, event: str, per_step: int, steps: int, longest: float) -> None:
        """Count so many steps from now on, in this thread, until one takes `longest` (s) or more."""

    def stop(self) -> None:
        """Count no more."""

    def ends_with_step(self) -> None:
        """Count no more once the step under way ended."""

    def take(self) -> list[float]:
        """When steps ended since this was asked last, but for the one that `on_end` was called with."""


class PythonStepCount:
    """The same as `_counted.StepCount`, where that is not built."""

    def __init__(self, clock: Callable[[], float], on_end: Callable[[float], None]) -> None:
        self._clock, self._on_end = clock, on_end
        self.event, self.left = "", 0
        self._ends: list[float] = []
        self._per_step, self._heard, self._thread = 1, 0, 0
        self.began = self._long = 0.0

    def of(self, event: str) -> PythonEvent:
        """Where events of this kind are to be reported, which are counted while `begin` has asked for it."""
        return PythonEvent(self, event)

    def begin(self, event: str, per_step: int, steps: int, longest: float) -> None:
        """Count so many steps from now on, in this thread, until one takes `longest` (s) or more."""
        self.event, self._per_step, self._heard, self.left = event, per_step, 0, steps
        self._thread, self.began, self._long = get_ident(), self._clock(), longest
        self._ends.clear()

    def stop(self) -> None:
        """Count no more."""
        self.left = 0

    def ends_with_step(self) -> None:
        """Count no more once the step under way ended."""
        self.left = min(self.left, 1)

    def take(self) -> list[float]:
        """When steps ended since this was asked last, but for the one that `on_end` was called with."""
        ended, self._ends = self._ends, []
        return ended

    def tick(self) -> None:
        """Count one event, if it is of the thread that is followed."""
        if get_ident() != self._thread:
            return
        self._heard += 1
        if self._heard < self._per_step:
            return
        self._heard = 0
        now = self._clock()
        took, self.began = now - self.began, now
        self.left -= 1
        if self.left and took < self._long:
            self._ends.append(now)
        else:
            self.left = 0
            self._on_end(now)


class PythonEvent:
    """The same as `_counted.Event`, where that is not built."""

    def __init__(self, count: PythonStepCount, event: str) -> None:
        self._count, self.event = count, event

    def passes(self) -> bool:
        """Whether nothing more is to be done for such an event than to count it, if it is what is counted."""
        if not self._count.left:
            return False
        if self.event == self._count.event:
            self._count.tick()
        return True


try:
    from tpuprof.instrument import _counted

    step_count: Callable[..., StepCount] = _counted.StepCount
except ImportError:  # not built, or for another Python or machine
    step_count = PythonStepCount
