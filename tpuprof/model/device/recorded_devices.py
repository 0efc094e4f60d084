"""Which devices of a host the trace shows in the captured steps: figures are of those.

A trace buffer that is full stops one chip's record early, and a chip that ran one copy before the steps does not run
them. Nothing tells such a chip from one that idles, so its time is not called idle.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.intervals import Bool, covered
from tpuprof.model.steps import Steps
from tpuprof.records import record
from tpuprof.units import counted

# Share of the steps that lie before a device's first work or behind its last, while others work, from which the trace
# does not show the device. Less is what a device begins later than others, or ends earlier. A judgement.
UNSEEN_FROM_SHARE = 0.1
# ... and at least so many of them (steps).
UNSEEN_FROM_STEPS = 2
# Share of the steps between its first and last work in which a device works, from which it takes part in each step and
# has stopped; in fewer, it works now and then, and idles meanwhile. A judgement: most.
TAKES_PART_FROM_SHARE = 0.5
# Devices named one by one (devices).
NAMED = 4


@record(frozen=True)
class Seen:
    """The devices that figures are of. `stopped` is what to say of those that work in a part of the steps only.

    `unused` is what to say of those that did no work in the steps: they may idle.
    """

    devices: list[DeviceActivity]
    stopped: list[str]
    unused: str = ""


def seen_in_steps(devices: list[DeviceActivity], planes: int, steps: Steps) -> Seen:
    """The devices that the trace shows in the steps, all where none would be left; it has so many planes of devices."""
    if not devices or not len(steps):
        return Seen(devices, [])
    works = np.stack([covered(each.busy, steps.start, steps.end) > 0 for each in devices])
    used = [(device, own) for device, own in zip(devices, works, strict=True) if own.any()]
    if not used:
        return Seen(devices, [])
    any_works: Bool = np.any(works, axis=0)
    whole = [each for each in used if _is_seen(each[1], any_works)] or used
    stopped = [each for each in used if whole is not used and not _is_seen(each[1], any_works)]
    idle = max(planes, len(devices)) - len(used)
    unused = (
        f"{idle} of {idle + len(used)} x {devices[0].type} did no work in the captured steps" if idle else ""
    )
    told = [_told(stopped, len(whole), len(steps))] if stopped else []
    return Seen([device for device, _ in whole], told, unused)


def _is_seen(own: Bool, others: Bool) -> bool:
    """Whether a device works from the first to the last of the steps in which any does, or idles in between."""
    at = np.flatnonzero(own)
    first, last = int(at[0]), int(at[-1]) + 1
    outside = int(others[:first].sum() + others[last:].sum())
    few = outside < max(UNSEEN_FROM_SHARE * len(own), UNSEEN_FROM_STEPS)
    return few or float(own[first:last].mean()) < TAKES_PART_FROM_SHARE


def _told(stopped: list[tuple[DeviceActivity, Bool]], kept: int, steps: int) -> str:
    named = [
        f"{device.name} works in {int(own.sum())} of {counted(steps, 'step')}" for device, own in stopped
    ]
    more = f", and so do {counted(len(named) - NAMED, 'more device')}" if len(named) > NAMED else ""
    return (
        f"{', '.join(named[:NAMED])}{more}: whether a device idles in the others, or was not recorded, is unknown. "
        f"Figures are of the other {counted(kept, 'device')}"
    )
