"""Splits each step's wall time into parts that sum to it exactly.

While a device works, its time is named by what ran on it; while it idles, by what the host was doing. The
split is a painting: layers in a fixed order, each taking what earlier ones left, so nothing is counted
twice and nothing is lost. With several devices the parts are their mean, and the rounding of the mean is
given to the largest part, so the sum stays exact.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.host.activity import HostActivity
from tpuprof.model.host.vocabulary import Activity
from tpuprof.model.intervals import EMPTY, Int64, Spans, covered, intersect, merge, subtract
from tpuprof.model.steps import Steps
from tpuprof.parallel import in_threads
from tpuprof.parts import (
    CALLBACK,
    COLLECTIVE,
    COMPILE,
    COMPUTE,
    DEVICE_PARTS,
    DISPATCH,
    HOST_IO,
    HOST_PREFIX,
    NAMES,
    OFFLOAD,
    OTHER_DEVICE,
    UNKNOWN,
    USER_PREFIX,
    of_activity,
)
from tpuprof.records import record

# What a read of one value that is ready takes at most (ps): 9 us in JAX, some 40 on a busy machine. 39 weights of 16 MB
# in all took 0.4 ms each: a copy, which goes with the read. A judgement between the two.
READY_TO_PS = 100_000_000
# Kinds of host time in samples that wait for no other thread.
_HOLDS = ("sleep", "io", "python")
# What each host activity is called when the device idles meanwhile.
_IDLE_NAME = {Activity[activity.upper()]: name for activity, name in of_activity().items()}


@record(frozen=True)
class Breakdown:
    """Time of each part by step: `parts[name]` is int64 ps, one row per step; the rows sum to the wall time.

    `tracing_hidden` is tracing behind device work, which costs nothing; it is not part of the sum.
    `busy` is time in which the device was in a program, `host_work` time in which the training thread
    worked rather than waited, `waited` time in which it waited for the device inside the runtime. `unfinished` is how
    long the device worked at least and `feeding` how long programs were handed to it beside the training thread, where
    reads tell and no device plane does. `for_reads` is idle time in which the host traces and hands over graphs that
    reads of values run by themselves. `ready` is the time of reads that wait for nothing: the device, which is this
    machine's CPU, idles from their begin to their end. `blocked` is what the program's reads block.
    """

    parts: dict[str, Int64]
    tracing_hidden: Int64
    busy: Int64
    host_work: Int64
    host_reads: Int64
    waited: Int64
    unfinished: Int64
    feeding: Int64
    for_reads: Int64
    ready: Int64
    blocked: Int64


def attribute(steps: Steps, devices: list[DeviceActivity], host: HostActivity) -> Breakdown:
    """Split the steps of one host over its devices. Without any device, all of a step is idle time."""
    idle_layers = _idle_layers(host)
    # Beside the thread that looks at compiles, loops and memory meanwhile.
    per_device = in_threads(lambda device: _split(steps, device, idle_layers), devices, beside=1)
    if not per_device:
        per_device = [_paint(steps, idle_layers, EMPTY)]
    parts = _mean_parts(per_device, steps.wall_ps)
    busy = merge(*(device.busy for device in devices)) if devices else EMPTY
    tracing = host.spans(Activity.TRACING)
    working = _working(host)
    return Breakdown(
        parts=parts,
        tracing_hidden=covered(intersect(tracing, busy), steps.start, steps.end),
        busy=sum((parts.get(name, _zeros(steps)) for name in DEVICE_PARTS), _zeros(steps)),
        host_work=covered(working, steps.start, steps.end),
        host_reads=_count_inside(host.spans(Activity.DEVICE_TO_HOST_SYNC), steps),
        waited=covered(host.spans(Activity.DEVICE_WAIT), steps.start, steps.end),
        unfinished=_zeros(steps),
        feeding=_zeros(steps),
        for_reads=covered(_for_reads(host, busy), steps.start, steps.end),
        ready=covered(_ready(host, devices, busy), steps.start, steps.end),
        blocked=_zeros(steps),
    )


def layers(device: DeviceActivity | None, host: HostActivity) -> list[tuple[str, Spans]]:
    """What each part is painted from, in the order of painting: earlier layers hide later ones."""
    return (_device_layers(device) if device else []) + _idle_layers(host)


def _device_layers(device: DeviceActivity) -> list[tuple[str, Spans]]:
    kinds = device.by_kind
    return [
        # On PJRT_DEVICE=CPU a callback keeps a thread of the device's pool, and ops that wait for that thread look as
        # if they computed. Elsewhere nothing runs beside one.
        (CALLBACK, kinds[OpKind.HOST_CALLBACK]),
        (COMPUTE, kinds[OpKind.COMPUTE]),
        (HOST_IO, kinds[OpKind.INFEED_OUTFEED]),
        (OFFLOAD, kinds[OpKind.OFFLOAD]),
        (COLLECTIVE, kinds[OpKind.COLLECTIVE]),
        (OTHER_DEVICE, device.busy),
    ]


def _idle_layers(host: HostActivity) -> list[tuple[str, Spans]]:
    """Compiles first, whichever thread runs them, but where the training thread is held by something else meanwhile."""
    layers = [(COMPILE, compiling(host))]
    layers += [(USER_PREFIX + name, spans) for name, spans in sorted(host.user.items())]
    layers += sorted(host.named.items())
    layers += [(name, host.spans(activity)) for activity, name in _IDLE_NAME.items() if name != COMPILE]
    return [*layers, (DISPATCH, host.dispatching)]


def compiling(host: HostActivity) -> Spans:
    """Idle time that counts as `compile`: what else the training thread does meanwhile costs nothing beside it."""
    elsewhere = subtract(host.compiling, _held(host))
    return merge(elsewhere, host.spans(Activity.COMPILE))


def _held(host: HostActivity) -> Spans:
    """When the training thread does what takes as long whether or not another thread compiles.

    It waits for its next batch, sleeps, reads or writes, or runs Python. A lock, or a call that waits, may be held by
    the compile.
    """
    named = [host.named.get(HOST_PREFIX + kind, EMPTY) for kind in _HOLDS]
    return subtract(merge(host.spans(Activity.INPUT_WAIT), *named), host.spans(Activity.COMPILE))


def device_parts(device: DeviceActivity, start: Int64, end: Int64) -> dict[str, Int64]:
    """How much of each window [start, end) the device is in each of its parts (ps); they sum to its busy time."""
    parts: dict[str, Int64] = {}
    earlier: list[Spans] = []
    before = np.zeros(len(start), np.int64)
    for name, spans in _device_layers(device)[:-1]:
        own = spans
        for each in earlier:
            own = subtract(own, each)
        parts[name] = covered(own, start, end)
        before = before + parts[name]
        earlier.append(own)
    # Whatever the device does is in its busy time.
    return {**parts, OTHER_DEVICE: covered(device.busy, start, end) - before}


def _split(steps: Steps, device: DeviceActivity, idle_layers: list[tuple[str, Spans]]) -> dict[str, Int64]:
    return {
        **device_parts(device, steps.start, steps.end),
        **_paint(steps, idle_layers, device.busy),
    }


def _paint(steps: Steps, layers: list[tuple[str, Spans]], taken: Spans) -> dict[str, Int64]:
    before = covered(taken, steps.start, steps.end)
    parts: dict[str, Int64] = {}
    for name, spans in layers:
        if not len(spans.start):
            continue
        taken = merge(taken, spans)
        after = covered(taken, steps.start, steps.end)
        parts[name] = parts.get(name, _zeros(steps)) + after - before
        before = after
    parts[UNKNOWN] = steps.wall_ps - before
    return parts


def _mean_parts(per_device: list[dict[str, Int64]], wall: Int64) -> dict[str, Int64]:
    names = list(dict.fromkeys([*NAMES, *(name for parts in per_device for name in parts)]))
    zero = np.zeros(len(wall), np.int64)
    total = np.stack([sum((parts.get(name, zero) for parts in per_device), zero) for name in names])
    mean = total // len(per_device)
    largest = np.argmax(mean, axis=0)
    mean[largest, np.arange(len(wall))] += wall - mean.sum(axis=0)
    return dict(zip(names, mean, strict=True))


def _working(host: HostActivity) -> Spans:
    # Time that nothing explains may be work: that a read costs it must not be concluded from it.
    waits = (Activity.DEVICE_WAIT, Activity.DEVICE_TO_HOST_SYNC)
    return merge(*(spans for activity, spans in host.by_activity.items() if activity not in waits), EMPTY)


def _for_reads(host: HostActivity, busy: Spans) -> Spans:
    """When the device idles while the host works on graphs that reads of values run: tracing, and handing over.

    Only lazy tensors are traced for a read. Elsewhere a read waits for what was called before.
    """
    if host.framework != "torch_xla":
        return EMPTY
    making = merge(
        *(host.spans(each) for each in (Activity.TRACING, Activity.DISPATCH, Activity.DEVICE_WAIT))
    )
    return subtract(intersect(host.reading, making), merge(busy, compiling(host)))


def _ready(host: HostActivity, devices: list[DeviceActivity], busy: Spans) -> Spans:
    """Reads of values that are ready on a device that is this machine's CPU: they take what the host needs to read.

    Any other device has a copy to make, which the host waits for, and so has a read that takes long.
    """
    if not devices or any(each.type != "CPU" for each in devices):
        return EMPTY
    reads = host.spans(Activity.DEVICE_TO_HOST_SYNC)
    rests = (covered(busy, reads.start, reads.end) == 0) & (reads.end - reads.start <= READY_TO_PS)
    return Spans(reads.start[rests], reads.end[rests])


def _count_inside(spans: Spans, steps: Steps) -> Int64:
    return np.searchsorted(spans.start, steps.end) - np.searchsorted(spans.start, steps.start)


def _zeros(steps: Steps) -> Int64:
    return np.zeros(len(steps), np.int64)
