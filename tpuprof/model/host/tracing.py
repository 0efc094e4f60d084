"""What the host's tracing is made of, how much of it the device hides, and under which annotations it happens."""

from __future__ import annotations

from dataclasses import field
from itertools import takewhile

import numpy as np

from tpuprof.model.attribution import layers as painted
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.host.activity import HostActivity
from tpuprof.model.host.driver import autograd_threads
from tpuprof.model.host.vocabulary import Activity, NameSet, Vocabulary
from tpuprof.model.intervals import EMPTY, Int64, Spans, covered, intersect, merge, subtract, union
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Host, Track
from tpuprof.parts import TRACING
from tpuprof.records import record
from tpuprof.units import PS_PER_MS

AUTOGRAD = "autograd"
PYTHON = "python_and_dispatch"
# What scan takes at least to trace its body (ps). On two slow cores, torch_xla 2.9: 70 ms for a body of two ops, and
# 0.2 to 1.5 ms to find what it has traced before.
SCAN_TRACED_FROM_PS = 5 * PS_PER_MS


@record(frozen=True)
class TracingShare:
    """Tracing of one kind, or under one annotation (of this `kind`), inside steps; sums in ps."""

    name: str
    exposed_ps: int
    hidden_ps: int
    kind: str = ""


@record(frozen=True)
class Tracing:
    """Tracing of one host inside its steps, in ps.

    `phases` do not overlap and sum to all tracing of the training thread; annotations nest, so theirs do not
    sum. `scan_retraces` counts how often the body of a scan was traced, None where the framework has no scan, or where
    the trace does not tell.
    """

    phases: list[TracingShare] = field(default_factory=list)
    annotations: list[TracingShare] = field(default_factory=list)
    scan_retraces: int | None = None

    @property
    def exposed_ps(self) -> int:
        """Tracing with the device idle."""
        return sum(each.exposed_ps for each in self.phases)


def split_tracing(
    host: Host,
    driver: Track | None,
    vocabulary: Vocabulary,
    activity: HostActivity,
    steps: Steps,
    devices: list[DeviceActivity],
) -> Tracing:
    """Split one host's tracing by phase and by annotation.

    What the autograd thread does while the training thread waits in `backward()` is tracing of its own phase;
    it is known only where that thread left events. Compiles are not tracing, whichever thread runs them.
    """
    if driver is None or not len(steps):
        return Tracing()
    busy = merge(*(device.busy for device in devices)) if devices else EMPTY
    inside = union(steps.start, steps.end)
    tracing = subtract(intersect(activity.spans(Activity.TRACING), inside), activity.compiling)
    # Exposed is what the breakdown gives to tracing: what is painted there before counts as that.
    before = takewhile(lambda layer: layer[0] != TRACING, painted(None, activity))
    exposed = subtract(tracing, merge(busy, *(spans for _, spans in before)))
    tracing = merge(exposed, intersect(tracing, busy))
    autograd = autograd_threads(host)
    return Tracing(
        phases=_phases([driver, *autograd], autograd, vocabulary, tracing, exposed),
        annotations=_by_annotation(activity, tracing, exposed),
        scan_retraces=_retraces([driver, *autograd], vocabulary, steps),
    )


def _phases(
    threads: list[Track], autograd: list[Track], vocabulary: Vocabulary, tracing: Spans, exposed: Spans
) -> list[TracingShare]:
    layers = [(name, _events(threads, names)) for name, names in vocabulary.tracing_phases]
    layers.append((AUTOGRAD, merge(*(union(track.start, track.end) for track in autograd), EMPTY)))
    layers.append((PYTHON, tracing))
    taken = EMPTY
    shares = []
    for name, spans in layers:
        part = subtract(intersect(tracing, spans), taken)
        taken = merge(taken, spans)
        open_part = intersect(part, exposed).total
        if part.total:
            shares.append(TracingShare(name, open_part, part.total - open_part))
    return sorted(shares, key=lambda each: -(each.exposed_ps + each.hidden_ps))


def _events(threads: list[Track], names: NameSet) -> Spans:
    """When an event of these names was open on any of the threads."""
    parts = [EMPTY]
    for track in threads:
        chosen = np.isin(track.name_row, names.rows(track.plane.events.names))
        parts.append(union(track.start[chosen], track.end[chosen]))
    return merge(*parts)


def _by_annotation(activity: HostActivity, tracing: Spans, exposed: Spans) -> list[TracingShare]:
    notes = activity.annotations
    total, open_part = (
        covered(tracing, notes.start, notes.end),
        covered(exposed, notes.start, notes.end),
    )
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for name, kind, whole, part in zip(
        notes.name, notes.kind, total.tolist(), open_part.tolist(), strict=True
    ):
        before = sums.get((name, kind), (0, 0))
        sums[name, kind] = (before[0] + part, before[1] + whole - part)
    shares = [TracingShare(name, *each, kind) for (name, kind), each in sums.items() if any(each)]
    return sorted(shares, key=lambda each: -(each.exposed_ps + each.hidden_ps))


def _retraces(threads: list[Track], vocabulary: Vocabulary, steps: Steps) -> int | None:
    """How often a scan traced its body in steps; None where the framework has no scan, or nothing timed it."""
    if not vocabulary.scan_ran.exact:
        return None
    ran = looked_up = traced = 0
    for track in threads:
        names = track.plane.events.names
        ran += int(
            _in_steps(track.start[np.isin(track.name_row, vocabulary.scan_ran.rows(names))], steps).sum()
        )
        rows = np.flatnonzero(np.isin(track.name_row, vocabulary.scan_looked_up.rows(names)))
        inside = _in_steps(track.start[rows], steps).astype(np.bool_)
        looked_up += int(inside.sum())
        traced += int(((track.end - track.start)[rows][inside] >= SCAN_TRACED_FROM_PS).sum())
    return traced if looked_up or not ran else None


def _in_steps(start: Int64, steps: Steps) -> Int64:
    at = np.searchsorted(steps.start, start, "right") - 1
    inside: Int64 = ((at >= 0) & (start < steps.end[np.maximum(at, 0)])).astype(np.int64)
    return inside
