"""One check for numbers with a physical bound: what breaks its bound is not shown, but called inconsistent.

A trace may state a wrong peak, count an op's work twice, or have damaged times. A number that cannot be true must not
look like one that is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

INCONSISTENT = "inconsistent: "
# How far above its bound a number may come out and still be that bound (share). On a real v6e, an op's time on the
# line differs by up to 13 % from its time by the device's own clock, to which the line's clock was fitted.
CLOCK_SLACK = 0.15
# The same for sums over whole steps, in which clocks agree (share): what rounding and edges of steps make.
SUM_SLACK = 0.02


class Checked(NamedTuple):
    """A number within its bounds; `value` is None where it breaks one, and `note` says which."""

    value: float | None
    note: str = ""


def checked(
    value: float | None,
    what: str,
    *,
    at_most: float | None,
    bound: str,
    show: Callable[[float], str],
    slack: float = SUM_SLACK,
) -> Checked:
    """The value, at least 0 and at most `at_most`, which `bound` names; None stays None, and no bound holds all.

    What exceeds the bound by no more than `slack` counts as the bound.
    """
    if value is None:
        return Checked(None)
    if not value >= 0.0:  # also what is not a number
        return Checked(None, f"{INCONSISTENT}{what} is {show(value)}, below zero")
    if at_most is None or value <= at_most:
        return Checked(value)
    if value <= at_most * (1.0 + slack):
        return Checked(at_most)
    return Checked(None, f"{INCONSISTENT}{what} is {show(value)}, above {bound}")


def is_inconsistent(note: str) -> bool:
    """Whether a reason says that a number broke its bound."""
    return note.startswith(INCONSISTENT)
