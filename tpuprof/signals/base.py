"""What a signal is: a named number or table with a unit, a definition, and the reason where it is missing.

A signal that the run cannot tell raises `Unavailable`, which ends the rule that asked for it; it is never 0. A signal
names the inputs it needs (`signals/inputs.py`): a table that is empty because nobody could look raises too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import cached_property
from typing import Any, TypeVar

from tpuprof.model.run import Run
from tpuprof.records import record
from tpuprof.report.schema import Report
from tpuprof.signals.inputs import INPUTS

T = TypeVar("T")

_UNITS: dict[str, str] = {}


class Unavailable(Exception):  # noqa: N818  # it is an answer, not an error
    """Ends a rule whose signal the run cannot tell; its text says why, and what to capture."""


@record
class Readings:
    """Names of signals that were asked for, and of those that the run could tell; not what they are computed from."""

    asked: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)


class Signal(cached_property[T]):
    """A property of `Signals`: computed once, after its inputs were found to be there; each reading is noted."""

    def __init__(self, compute: Callable[[Any], T], needs: tuple[str, ...] = ()) -> None:
        """`needs` are names of `INPUTS`."""
        super().__init__(compute)
        self.needs = needs

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        """The value. Raises `Unavailable`."""
        name = self.attrname
        if instance is None or name is None:
            return self
        readings = instance.noted
        readings.asked.add(name)
        if name not in instance.__dict__:
            for each in self.needs:
                reason = instance.lacking(each)
                if reason:
                    raise Unavailable(reason)
            with instance.readings():  # what it is computed from was not asked for
                instance.__dict__[name] = self.func(instance)
        readings.read.add(name)
        return instance.__dict__[name]

    def __set__(self, instance: Any, value: T) -> None:
        """Refuse: a signal is computed. With this, readings of computed signals are noted too."""
        raise AttributeError(f"the signal {self.attrname} is computed, not set")


def signal(unit: str, needs: tuple[str, ...] = ()) -> Callable[[Callable[[Any], T]], cached_property[T]]:
    """Make a property of `Signals` a signal; its unit is kept for the documentation."""

    def wrap(compute: Callable[[Any], T]) -> cached_property[T]:
        _UNITS[compute.__name__] = unit
        return Signal(compute, needs)

    return wrap


def signal_units() -> Mapping[str, str]:
    """Unit of every signal, by name, in the order of their definition."""
    return _UNITS


class SignalsBase:
    """What every subject's signals are computed from: the Report (without findings) and the run's tables.

    Both are private: rules read signals alone.
    """

    def __init__(self, report: Report, run: Run) -> None:
        self._report = report
        self._run = run

    def lacking(self, name: str) -> str:
        """Why an input is not there, empty where it is."""
        return INPUTS[name](self._report, self._run)

    @property
    def noted(self) -> Readings:
        """What was read since `readings` was entered."""
        return self.__dict__.setdefault("_noted", Readings())  # type: ignore[no-any-return]

    @contextmanager
    def readings(self) -> Iterator[Readings]:
        """What is read inside the block."""
        before = self.noted
        inside = self.__dict__["_noted"] = Readings()
        try:
            yield inside
        finally:
            self.__dict__["_noted"] = before
