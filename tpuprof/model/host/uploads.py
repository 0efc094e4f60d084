"""Copies to the device: of what was there before, of a call's arguments, and of inputs that a program waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tpuprof.model.device.cpu import HANDED_OVER
from tpuprof.model.host.activity import HostActivity
from tpuprof.model.host.vocabulary import Activity, Vocabulary
from tpuprof.model.intervals import (
    EMPTY,
    Spans,
    contains,
    covered,
    inherit,
    intersect,
    merge,
    subtract,
    union,
)
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Host, Track
from tpuprof.own_events import UPLOAD

_AGAIN = "again"
# What JAX calls a jitted function's call, and what it calls handing an array to the runtime that copies it.
_CALL, _HANDED = "PjitFunction(", "DevicePut"
# Share of such time inside the calls of one function from which the copies are its arguments (share). A judgement.
ARGUMENTS_FROM_SHARE = 0.5
# Share of the time of copies from which the calls of one line are most of it (share). A judgement.
LINE_FROM_SHARE = 0.5
# What XLA's CPU client calls the copy of an array, in a thread of its pool. Events of threads that run Python are not
# looked at: a thread that makes batches ahead copies them there, while the training thread waits for something else.
_COPIES = ("H2D Dispatch",)
_WAITS = (Activity.DEVICE_WAIT, Activity.DEVICE_TO_HOST_SYNC)


def again_share(driver: Track | None, activity: HostActivity, steps: Steps) -> float:
    """Share of the time of copies to the device in steps that copies an array again; 0 where nothing tells."""
    if driver is None or not len(steps):
        return 0.0
    copies = activity.spans(Activity.HOST_TO_DEVICE)
    whole = int(covered(copies, steps.start, steps.end).sum())
    again = int(covered(intersect(copies, _again(driver)), steps.start, steps.end).sum())
    return again / whole if whole else 0.0


def copied_at(driver: Track | None, activity: HostActivity, steps: Steps) -> str:
    """The line (`file:line`) whose calls take most of the time of copies to the device in steps; empty where none does.

    Samples see little of a long copy that holds Python's lock: the calls themselves are noted with their lines.
    """
    if driver is None or not len(steps) or UPLOAD not in driver.plane.events.names:
        return ""
    copies = activity.spans(Activity.HOST_TO_DEVICE)
    whole = int(covered(copies, steps.start, steps.end).sum())
    rows = driver.named(UPLOAD)
    sources = driver.plane.stat_text(driver.stats("source"), "source", len(driver))
    by_line: dict[str, list[int]] = {}
    for row in rows.tolist():
        by_line.setdefault(sources[row], []).append(row)
    took = {}
    for source, found in by_line.items():
        calls = union(driver.start[found], driver.end[found])
        took[source] = int(covered(intersect(copies, calls), steps.start, steps.end).sum())
    most = max(took, key=lambda source: took[source], default="")
    return most if took.get(most, 0) >= LINE_FROM_SHARE * whole > 0 else ""


def copying(host: Host, activity: HostActivity, steps: Steps) -> int:
    """How long the training thread or XLA's CPU client copies to the device in steps (ps), also side by side.

    A large copy goes on in a thread of the client when the call has returned. It holds a CPU, and its program back.
    """
    copies = merge(activity.spans(Activity.HOST_TO_DEVICE), _copies_of(host))
    return int(covered(copies, steps.start, steps.end).sum())


def _copies_of(host: Host) -> Spans:
    """When threads of XLA's CPU client copy."""
    rows = [(track, track.named(*_COPIES)) for track in host.threads]
    return merge(*(union(track.start[found], track.end[found]) for track, found in rows if len(found)), EMPTY)


def _again(driver: Track) -> Spans:
    rows = driver.named(UPLOAD)
    told = driver.plane.stat_integers(driver.stats(_AGAIN), _AGAIN, len(driver), missing=0)
    rows = rows[told[rows] > 0]
    return union(driver.start[rows], driver.end[rows])


def given_to(driver: Track | None, vocabulary: Vocabulary, steps: Steps) -> str:
    """The jitted function whose calls are given most of the arrays that are copied in steps; empty where none is.

    Such arrays are NumPy's: a call copies them, each time.
    """
    if driver is None or vocabulary.framework != "jax" or not len(steps):
        return ""
    names = driver.plane.events.names
    handed = driver.named(_HANDED)
    handed = handed[contains(union(steps.start, steps.end), driver.start[handed])]
    if not len(handed):
        return ""
    calls = [row if name.startswith(_CALL) else -1 for row, name in enumerate(names)]
    call = inherit(np.array([*calls, -1])[driver.name_row], driver.parent, -1)[handed]
    taken = (driver.end - driver.start)[handed]
    of_call = np.bincount(call + 1, weights=taken)
    most = int(np.argmax(of_call))
    enough = most > 0 and of_call[most] >= ARGUMENTS_FROM_SHARE * taken.sum()
    return names[most - 1].removeprefix(_CALL).removesuffix(")") if enough else ""


def with_awaited_copies(
    activity: HostActivity, host: Host, driver: Track | None, devices: Sequence[Spans]
) -> HostActivity:
    """The same with waits for an idle device as copies to it, where the runtime copies meanwhile.

    `devices` is when each device works. A call with NumPy's arrays returns before they are copied, and the program
    begins once they are: what the host waits for then is the copy. XLA's CPU client runs small programs in the call
    that hands them over, so such a call of the training thread waits for the copies of programs before it.
    """
    if activity.framework != "jax" or not devices:
        return activity
    idle = subtract(_copies_of(host), merge(*devices))
    awaited = {each: intersect(activity.spans(each), idle) for each in _WAITS}
    handing_over = intersect(activity.spans(Activity.DISPATCH), _handing_over(driver))
    awaited[Activity.DISPATCH] = intersect(handing_over, idle)
    if not any(len(each.start) for each in awaited.values()):
        return activity
    left = {each: subtract(activity.spans(each), spans) for each, spans in awaited.items()}
    copying = merge(activity.spans(Activity.HOST_TO_DEVICE), *awaited.values())
    return replace(activity, by_activity={**activity.by_activity, **left, Activity.HOST_TO_DEVICE: copying})


def _handing_over(driver: Track | None) -> Spans:
    """When the training thread is in calls of XLA's CPU client that hand a program over."""
    if driver is None:
        return EMPTY
    names = [name for name in driver.plane.events.names if name.endswith(HANDED_OVER)]
    rows = driver.named(*names)
    return union(driver.start[rows], driver.end[rows])
