"""Which devices of a host the trace shows in the captured steps: figures are of those.

A trace buffer that is full stops one chip's record early, and a chip that ran one copy before the steps does not run
them. Nothing tells such a chip from one that idles, so its time is not called idle.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.recorded_ops import said_of_lacking, without_ops
from tpuprof.model.device.unlike_clocks import unlike_clocks
from tpuprof.model.intervals import Bool, covered, merge
from tpuprof.model.steps import Steps
from tpuprof.model.steps.table import COVERS_FROM_SHARE
from tpuprof.model.verdict_words import NAMED_FROM_SHARE
from tpuprof.records import record
from tpuprof.units import counted, format_share, listed

# Share of the steps that lie before a device's first work or behind its last, while others work, from which the trace
# does not show the device. Less is what a device begins later than others, or ends earlier. A judgement.
UNSEEN_FROM_SHARE = 0.1
# ... and at least so many of them (steps).
UNSEEN_FROM_STEPS = 2
# Share of the steps between its first and last work in which a device works, from which it takes part in each step and
# has stopped; in fewer, it works now and then, and idles meanwhile. A judgement: most.
TAKES_PART_FROM_SHARE = 0.5
# How the sentence on devices that idle while another one works begins.
BY_TURNS = "devices work by turns"
# Devices named one by one (devices).
NAMED = 4


@record(frozen=True)
class Seen:
    """The devices that figures are of. `stopped` is what to say of those that work in a part of the steps only.

    `left_out` counts these. `notes` are what else the reader should know of devices, `blind` says that there are some,
    and none shows work.
    """

    devices: list[DeviceActivity]
    stopped: list[str]
    notes: list[str]
    blind: bool = False
    left_out: int = 0


def seen_in_steps(devices: list[DeviceActivity], planes: int, steps: Steps) -> Seen:
    """The devices that the trace shows in the steps, all where none would be left; it has so many planes of devices."""
    blind = [each for each in devices if not len(each.busy.start)]
    if blind:
        seen = seen_in_steps([each for each in devices if len(each.busy.start)], planes - len(blind), steps)
        return replace(seen, notes=[*seen.notes, _of_blind(blind)], blind=not seen.devices)
    if not devices or not len(steps):
        return Seen(devices, [], [])
    lacking = without_ops(devices, steps)
    if lacking:
        names = {each.name for each in lacking}
        others = [each for each in devices if each.name not in names]
        seen = seen_in_steps(others, planes - len(lacking), steps)
        told = [*seen.stopped, said_of_lacking(lacking)]
        return replace(seen, stopped=told, left_out=seen.left_out + len(lacking))
    clocks = unlike_clocks(devices)
    if clocks.odd:
        odd = {each.name for each in clocks.odd}
        seen = seen_in_steps([each for each in devices if each.name not in odd], planes - len(odd), steps)
        left_out = seen.left_out + sum(each.count for each in clocks.odd)
        return replace(seen, notes=[clocks.told, *seen.notes], left_out=left_out)
    busy = [covered(each.busy, steps.start, steps.end) for each in devices]
    notes = _outside(devices, steps)
    used = [(device, own > 0) for device, own in zip(devices, busy, strict=True) if own.any()]
    if not used:
        return Seen(devices, [], notes)
    any_works: Bool = np.any(np.stack(busy) > 0, axis=0)
    whole = [each for each in used if _is_seen(each[1], any_works)] or used
    stopped = [each for each in used if whole is not used and not _is_seen(each[1], any_works)]
    notes += _without_work(devices, len(used), max(planes, len(devices)))
    told = [_told(stopped, len(whole), len(steps))] if stopped else []
    kept = [device for device, _ in whole]
    works = {each.name: int(own.sum()) for each, own in zip(devices, busy, strict=True)}
    left_out = sum(device.count for device, _ in stopped)
    return Seen(kept, told, [*notes, *_unlike(kept, works, steps)], left_out=left_out)


def _without_work(devices: list[DeviceActivity], used: int, planes: int) -> list[str]:
    """Of devices of which so many of all do no work in the steps; a TPU's without any event may work unseen."""
    empty = 0 if devices[0].is_gpu else planes - len(devices)
    idle = planes - used - empty
    kind = f"of {planes} x {devices[0].type}"
    have, they = ("has", "it works") if empty == 1 else ("have", "they work")
    notes = [f"{empty} {kind} {have} no events in the trace: whether {they} is unknown"] if empty else []
    return [*notes, *([f"{idle} {kind} did no work in the captured steps"] if idle else [])]


def _of_blind(devices: list[DeviceActivity]) -> str:
    """Of planes that have events, and none that is an op or a program."""
    named = listed([each.name for each in devices], NAMED, "more plane")
    return f"the trace shows neither ops nor programs of {named}: whether they work is unknown"


def _outside(devices: list[DeviceActivity], steps: Steps) -> list[str]:
    """A sentence where devices do most of their work before the first step or behind the last."""
    if devices[0].type == "CPU":
        return []
    begin, end = steps.start[:1], steps.end[-1:]
    share = sum(int(covered(each.busy, begin, end)[0]) for each in devices) / sum(
        each.busy.total for each in devices
    )
    if share >= COVERS_FROM_SHARE:
        return []
    return [
        f"{format_share(share)} of the devices' work in the capture lies in its steps: figures are of that"
    ]


def _unlike(devices: list[DeviceActivity], works: dict[str, int], steps: Steps) -> list[str]:
    """What to say of devices that are busy for unlike shares of the steps, or by turns; `works` is how long each is."""
    wall = int(steps.wall_ps.sum())
    if len(devices) < 2 or not wall:
        return []
    shares = {each.name: works[each.name] / wall for each in devices}
    return not_equally_busy(shares, "", "their mean") or _by_turns(devices, shares, steps)


def not_equally_busy(shares: dict[str, float], of: str, what: str) -> list[str]:
    """A sentence where one is busy for clearly less of the steps' time than another (`shares` by name), else none.

    `of` stands before each name, and `what` of them is said of the device.
    """
    least, most = min(shares, key=lambda name: shares[name]), max(shares, key=lambda name: shares[name])
    if shares[most] - shares[least] < NAMED_FROM_SHARE:
        return []
    return [
        f"devices are not equally busy: {of}{least} for {format_share(shares[least])} of the steps' time, {of}{most} "
        f"for {format_share(shares[most])}. What is said of the device is {what}"
    ]


def _by_turns(devices: list[DeviceActivity], shares: dict[str, float], steps: Steps) -> list[str]:
    """A sentence where one device works while another idles, as in a pipeline: it waits for that one, then."""
    wall, each_works = int(steps.wall_ps.sum()), sum(shares.values()) / len(shares)
    any_works = int(covered(merge(*(each.busy for each in devices)), steps.start, steps.end).sum()) / wall
    if any_works - each_works < NAMED_FROM_SHARE:
        return []
    return [
        f"{BY_TURNS}: at least one is busy for {format_share(any_works)} of the steps' time, each for "
        f"{format_share(each_works)} on average. A device that idles may wait for another one"
    ]


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
    other = "device" if kept == 1 else counted(kept, "device")
    return (
        f"{', '.join(named[:NAMED])}{more}: whether a device idles in the others, or was not recorded, is unknown. "
        f"Figures are of the other {other}"
    )
