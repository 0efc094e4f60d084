"""Which devices were recorded over the whole capture: others stop early, or ran as much by a clock of another speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tpuprof.records import record

# Share of the longest time that one device was recorded for, from which another was recorded for the whole capture: a
# device whose trace buffer is full stops early. A judgement: what is lost at either end is a step or two.
WHOLE_CAPTURE_FROM_SHARE = 0.9
# Share of as many programs or steps from which a device ran as many as another: one or two are cut at an end.
AS_MANY_FROM_SHARE = 0.97
_T = TypeVar("_T")


@record(frozen=True)
class Times:
    """How long one device was recorded for, by its own clock (ps), and how much it ran in that time."""

    covered: int
    count: int


@record(frozen=True)
class Agreement:
    """Rows of devices: those that speak for the capture, and `other` ones that ran as many in another time.

    `most_agree` says that the first are more. Else the longer recorded ones speak.
    """

    chosen: list[int]
    other: list[int]
    most_agree: bool


def spans_of(times: Sequence[Times]) -> Agreement:
    """Which devices were recorded over the whole capture: they do not stop long before others or begin long after."""
    most = max((each.covered for each in times), default=0)
    longest = [row for row, each in enumerate(times) if each.covered >= WHOLE_CAPTURE_FROM_SHARE * most]
    count = max((times[row].count for row in longest), default=0)
    shorter = [
        row
        for row, each in enumerate(times)
        if row not in longest and each.count >= AS_MANY_FROM_SHARE * count
    ]
    agree = bool(shorter) and (
        min(times[row].covered for row in shorter)
        >= WHOLE_CAPTURE_FROM_SHARE * max(times[row].covered for row in shorter)
    )
    if agree and len(shorter) > len(longest):
        return Agreement(shorter, longest, most_agree=True)
    return Agreement(longest, shorter, most_agree=len(longest) > len(shorter))


def over_the_capture(devices: Sequence[_T], times: Sequence[Times]) -> list[_T]:
    """The devices that speak for the whole capture; `times` is what each was recorded for."""
    return [devices[row] for row in spans_of(times).chosen]
