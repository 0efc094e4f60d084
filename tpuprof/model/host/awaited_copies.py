"""Waits for a program whose inputs are still copied to the device: the runtime's own threads copy them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tpuprof.model.host.activity import HostActivity
from tpuprof.model.host.vocabulary import Activity
from tpuprof.model.intervals import EMPTY, Spans, intersect, merge, subtract, union
from tpuprof.model.timeline import Host

# What JAX's CPU client calls the copy of an array, in a thread of its pool. Events of threads that run Python are not
# looked at: a thread that makes batches ahead copies them there, while the training thread waits for something else.
_COPIES = ("H2D Dispatch",)
_WAITS = (Activity.DEVICE_WAIT, Activity.DEVICE_TO_HOST_SYNC)


def with_awaited_copies(activity: HostActivity, host: Host, devices: Sequence[Spans]) -> HostActivity:
    """The same with waits for an idle device as copies to it, where the runtime copies meanwhile.

    `devices` is when each device works. A call with NumPy's arrays returns before they are copied, and the program
    begins once they are: what the host waits for then is the copy.
    """
    if activity.framework != "jax" or not devices:
        return activity
    rows = [(track, track.named(*_COPIES)) for track in host.threads]
    copies = merge(
        *(union(track.start[found], track.end[found]) for track, found in rows if len(found)), EMPTY
    )
    awaited = intersect(merge(*map(activity.spans, _WAITS)), subtract(copies, merge(*devices)))
    if not len(awaited.start):
        return activity
    by_activity = activity.by_activity
    left = {each: subtract(activity.spans(each), awaited) for each in _WAITS}
    copying = merge(activity.spans(Activity.HOST_TO_DEVICE), awaited)
    return replace(activity, by_activity={**by_activity, **left, Activity.HOST_TO_DEVICE: copying})
