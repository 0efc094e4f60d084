"""What a verdict says of time in a program without an op of the TensorCore, where SparseCores work meanwhile."""

from __future__ import annotations

from tpuprof.model.device.activity import PAINTED, DeviceActivity
from tpuprof.model.intervals import covered, intersect, merge, subtract
from tpuprof.model.run import Run
from tpuprof.model.step_times import StepTimes
from tpuprof.model.steps import Steps
from tpuprof.model.verdict_sentence import NO_OP
from tpuprof.parts import OTHER_DEVICE
from tpuprof.units import format_ms, ps_to_ms

# Share of such time in which SparseCores work from which that is what it is (share): most of it.
SPARSE_FROM_SHARE = 0.5
WAITS_FOR_SPARSE = (
    "and no op of its TensorCore computes or moves data; its SparseCores work for {time} of that"
)


def with_sparse(text: str, load: StepTimes, run: Run) -> str:
    """A verdict that says how much of the time without an op is work of SparseCores, where most of it is."""
    other = load.parts.get(OTHER_DEVICE, 0.0)
    if NO_OP not in text or not other:
        return text
    beside = [_beside(device, host.steps) for host in run.hosts for device in host.devices]
    lanes = sum(len(host.steps) * len(host.devices) for host in run.hosts)
    ms = ps_to_ms(sum(beside)) / lanes if lanes else 0.0
    if ms < SPARSE_FROM_SHARE * other:
        return text
    return text.replace(NO_OP, WAITS_FOR_SPARSE.format(time=format_ms(min(ms, other))))


def _beside(device: DeviceActivity, steps: Steps) -> int:
    """How long SparseCores of a device work in steps while it is in a program, and in no op that has a part (ps)."""
    if device.sparse_busy is None:
        return 0
    named = merge(*(device.by_kind[kind] for kind in PAINTED))
    spans = intersect(device.sparse_busy, subtract(device.busy, named))
    return int(covered(spans, steps.start, steps.end).sum())
