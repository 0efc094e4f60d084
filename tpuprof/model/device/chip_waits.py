"""How long each chip of a host waits for the others before programs that need all of them (`barrier-cores`).

The chip that comes last waits least: what the others wait more is the skew between them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.intervals import covered
from tpuprof.model.steps import Steps


class ChipWait(NamedTuple):
    """Barriers of one device over the capture: how many, and the time in them (ps), all of it and inside steps."""

    device: str
    barriers: int
    waited_ps: int
    in_steps_ps: int


def chip_waits(devices: list[DeviceActivity], steps: Steps) -> list[ChipWait]:
    """One row per device that has barriers, in the order of the devices."""
    return [
        ChipWait(
            device.name,
            len(device.barriers.start),
            device.barriers.total,
            int(covered(device.barriers, steps.start, steps.end).sum()) if len(steps) else 0,
        )
        for device in devices
        if len(device.barriers.start)
    ]


def last_chip(waits: list[ChipWait]) -> tuple[ChipWait, int] | None:
    """The device that waits least, and what the one that waits most waits longer (ps); None for fewer than two."""
    if len(waits) < 2:
        return None
    spent = np.array([each.waited_ps for each in waits])
    return waits[int(spent.argmin())], int(spent.max() - spent.min())
