"""Ops of an eager framework that compute on the host: their tensors are not on the device.

TorchTPU's profiler writes an event for every op, whatever device its tensors are on. To hand one over takes some
hundredths of a millisecond, and the runtime's threads then have events of their own; what takes far longer without any
is computed there and then: a teacher that was left on the CPU, or augmentation by torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tpuprof.model.host.interval_pieces import KINDS, TRACING
from tpuprof.model.host.samples import HostSamples
from tpuprof.model.intervals import EMPTY, Int64, Spans, covered, flatten, intersect, subtract, union
from tpuprof.model.timeline import Track
from tpuprof.units import PS_PER_MS

# Time in one op, outside the ops that it calls and the runtime's events in other threads, from which it computes on the
# host (ps): some thirty times what handing one over takes (10 to 30 us). Smaller ops count as dispatch.
ON_HOST_FROM_PS = PS_PER_MS
# Share of a piece between two samples that such ops must take for it to be theirs (share).
MOSTLY = 0.5
_OPS = "aten::"
# The kind of time in which the training thread runs code of its own.
_CODE = "python"


def ops_on_host(driver: Track, runtime: Callable[[], Spans], dispatching: Spans) -> Spans:
    """When the training thread computes ops itself, of the time in which it seems to hand them over.

    `runtime` tells when threads of the runtime have events; it is asked where the thread calls ops at all.
    """
    names = driver.plane.events.names
    rows = np.array([row for row, name in enumerate(names) if name.startswith(_OPS)], np.int64)
    if not len(rows):
        return EMPTY
    segments = flatten(driver.start, driver.end, driver.parent)
    chosen = np.isin(driver.name_row[segments.event], rows)
    alone = subtract(_long(segments.start[chosen], segments.end[chosen]), runtime())
    return intersect(_long(alone.start, alone.end), dispatching)


def _long(start: Int64, end: Int64) -> Spans:
    long = end - start >= ON_HOST_FROM_PS
    return union(start[long], end[long])


def computing(samples: HostSamples | None, on_host: Spans) -> HostSamples | None:
    """The samples, with pieces that are mostly in such ops as code of the host: PyTorch's functions around them hand
    nothing over.
    """
    if samples is None or not len(on_host.start):
        return samples
    inside = covered(on_host, samples.start, samples.end) >= MOSTLY * (samples.end - samples.start)
    handing = (samples.kind == KINDS.index(TRACING)) & inside
    return replace(samples, kind=np.where(handing, KINDS.index(_CODE), samples.kind))
