"""What a signal is: a named number or table with a unit, a definition, and the reason where it is missing.

A signal that the run cannot tell raises `Unavailable`, which ends the rule that asked for it; it is never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

from tpuprof.model.run import Run
from tpuprof.report.schema import Report

T = TypeVar("T")

_UNITS: dict[str, str] = {}


class Unavailable(Exception):  # noqa: N818  # it is an answer, not an error
    """Ends a rule whose signal the run cannot tell; its text says why, and what to capture."""


def signal(unit: str) -> Callable[[Callable[[Any], T]], cached_property[T]]:
    """Make a property of `Signals` a signal: computed once, its unit kept for the documentation."""

    def wrap(compute: Callable[[Any], T]) -> cached_property[T]:
        _UNITS[compute.__name__] = unit
        return cached_property(compute)

    return wrap


def signal_units() -> Mapping[str, str]:
    """Unit of every signal, by name, in the order of their definition."""
    return _UNITS


class SignalsBase:
    """What every subject's signals are computed from: the Report (without findings) and the run's tables."""

    def __init__(self, report: Report, run: Run) -> None:
        self.report = report
        self.run = run
