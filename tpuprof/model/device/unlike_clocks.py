"""Devices that ran as much as others in clearly more or less time: they are slower, or their clocks run differently.

A device whose trace buffer is full ran less than others. One that ran as much was recorded for as long, whatever its
own times say. Nothing in a trace tells a slow device from a fast clock, so what most devices agree on counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.steps.programs import time_of
from tpuprof.model.steps.whole_capture import spans_of
from tpuprof.records import record
from tpuprof.units import counted, format_ms, listed, ps_to_ms

# Devices named one by one (devices).
NAMED = 4


@record(frozen=True)
class Clocks:
    """`odd` are the devices that do not agree with the others, `told` is what to say of them."""

    odd: Sequence[DeviceActivity] = ()
    told: str = ""


def unlike_clocks(devices: Sequence[DeviceActivity]) -> Clocks:
    """The devices that ran as much as others, and do not agree with most of them on how long that took."""
    running = [each for each in devices if len(each.programs.start) and each.type != "CPU"]
    times = [time_of(each) for each in running]
    found = spans_of(times)
    if not found.other:
        return Clocks()
    odd, others = ([running[row] for row in rows] for rows in (found.other, found.chosen))
    took, usual = (format_ms(ps_to_ms(times[rows[0]].covered)) for rows in (found.other, found.chosen))
    names = listed([each.name for each in odd], NAMED, "more device")
    count = counted(times[found.other[0]].count, "program")
    said = f"{names} took {took} for {count}, and {others[0].name} {usual} for as many: "
    if found.most_agree:
        rest = "device" if len(others) == 1 else counted(len(others), "device")
        slower = times[found.other[0]].covered > times[found.chosen[0]].covered
        may_be = "slower, or clocks are faster there" if slower else "faster, or clocks are slower there"
        return Clocks(odd, f"{said}the work is {may_be}. Figures are of the other {rest}, which agree")
    these = f"{counted(len(others), 'device')} that took longer"
    unsure = "the work is faster, or clocks are slower there. Which of them is right is unknown"
    return Clocks(odd, f"{said}{unsure}; figures are of {these}")
