"""How many devices XLA's CPU client has, from the trace alone: they have no planes of their own."""

from __future__ import annotations

import re

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.intervals import Int64
from tpuprof.model.timeline import Track

# A call of a program: one for all of its devices. TFRT's client and PjRt's, and its loaded executable.
_CALLS = ("CpuExecutable::Execute", "CpuLoadedExecutable::Execute")
# What hands the program to one device, within the call.
_ONE_DEVICE = "CpuExecutable::ExecuteHelper"
# Devices of a process that meet at a collective: the event, its stat, and what that says.
_MEETING, _KEY = "Rendezvous", "name"
_DEVICES = re.compile(r"global_devices=\[([\d, ]*)\].*?num_local_participants=(\d+)")

# What is said of several: which thread works for which device is not in the trace.
AS_ONE = (
    "the {} CPU devices count as one: times are those in which any of them works, and a device that has more to do "
    "than the others, so that they wait for it, is not seen"
)
# What is said where collectives ran, and nothing says among how many devices.
UNKNOWN = "how many CPU devices the trace is of is unknown: collectives ran, and all work counts as that of one device"


def counted_as_one(devices: list[DeviceActivity], count: int | None) -> list[str]:
    """A sentence where several CPU devices are one in all figures, or as many as nothing tells; else none."""
    if not any(each.type == "CPU" for each in devices):
        return []
    if count is not None:
        return [AS_ONE.format(count)] if count > 1 else []
    return [UNKNOWN] if any((each.ops.kind == OpKind.COLLECTIVE).any() for each in devices) else []


def cpu_devices(threads: list[Track]) -> int | None:
    """Devices that a program was handed to in one call, or that met at collectives; None where neither is recorded."""
    return max(_in_one_call(threads), _at_collectives(threads)) or None


def _in_one_call(threads: list[Track]) -> int:
    """The most devices that any call handed its program to; calls that overlap others do not tell whose they are."""
    calls = [_spans(each, _CALLS) for each in threads]
    start = np.concatenate([begin for begin, _ in calls]) if calls else np.empty(0, np.int64)
    if not len(start):
        return 0
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.concatenate([finish for _, finish in calls])[order]
    handed = np.sort(np.concatenate([_spans(each, (_ONE_DEVICE,))[0] for each in threads]))
    alone = np.ones(len(start), np.bool_)
    alone[1:] &= start[1:] >= np.maximum.accumulate(end)[:-1]
    alone[:-1] &= alone[1:]
    within = np.searchsorted(handed, end, "right") - np.searchsorted(handed, start, "left")
    return int(within[alone].max(initial=0))


def _spans(track: Track, names: tuple[str, ...]) -> tuple[Int64, Int64]:
    wanted = [each for each in track.plane.events.names if each.endswith(names)]
    rows = track.named(*wanted) if wanted else np.empty(0, np.int64)
    return track.start[rows], track.end[rows]


def _at_collectives(threads: list[Track]) -> int:
    """Devices of this process that met others; where some of a group are elsewhere, as many as the largest has here."""
    here: set[int] = set()
    most = 0
    for track in threads:
        if not len(track.named(_MEETING)):
            continue
        for text in track.plane.stat_text(track.stats(_KEY), _KEY, len(track)).strings:
            found = _DEVICES.search(text)
            if found is None:
                continue
            ids = [int(each) for each in found.group(1).replace(" ", "").split(",") if each]
            most = max(most, int(found.group(2)))
            here |= set(ids) if len(ids) == int(found.group(2)) else set()
    return max(len(here), most)
