"""Tensors are offloaded although HBM has room for them.

## What it detects

Host offload in a run where the peak HBM and all bytes in host memory together take less than nine tenths of a device's
capacity.

## Why it costs time

Each copy takes bandwidth and, where it is exposed, device time, to save memory that is not short.

## Evidence

Peak HBM, the bytes that live in host memory, their sum against capacity, and exposed copy time per step.

## How to fix

Keep the tensors in HBM: take `place_to_host` and place_to_device out. Add the bytes that lie in host memory to the
peak before you do: the sum must stay below the capacity.

## How to fix in JAX

Keep the arrays in HBM: use a policy of `jax.checkpoint_policies` that does not offload. Add the bytes that lie in
host memory to the peak before you do: the sum must stay below the capacity.

## Limits and false positives

The sum is what is needed at most: a tensor that HBM already holds a copy of at the peak counts twice. Where the sum is
too large and the peak without such copies is not, the rule cannot decide. The peak is that of the captured programs;
evaluation or a longer batch may need more.

## References

- https://docs.pytorch.org/xla/release/r2.9/features/scan.html
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.report.memory import BufferRow
from tpuprof.report.schema import Evidence, TransferRow
from tpuprof.rules.base import UNAVAILABLE, Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.thresholds import FAILS_FROM_SHARE, HBM_PRESSURE_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import format_bytes


@rule(
    about="need for offloading",
    good="Offloading is needed, or costs little",
    bad="Tensors are offloaded although HBM has room",
    reads=("memory", "hbm_share", "offload", "offload_share"),
)
def check(signals: Signals) -> Outcome:
    """Fail where all tensors fit into HBM and exposed copies take enough of the step."""
    if not signals.offload:
        return not_applicable("nothing was offloaded to host memory")
    used, share = signals.hbm_share, signals.offload_share
    peak, capacity = signals.memory.peak_bytes or 0, signals.memory.capacity_bytes or 0
    on_host = signals.memory.by_kind.get("host") or _copied(signals.offload)
    if not on_host:
        return Outcome(UNAVAILABLE, reason="the trace does not give the bytes that live in host memory")
    held = _copies_held(signals.memory.buffers, signals.offload)
    text = _sum_text(peak, on_host, capacity)
    evidence = [
        Evidence("peak HBM, share of capacity", used, "share"),
        Evidence("bytes that live in host memory", on_host, "bytes"),
        Evidence("needed at most without offloading: peak and host memory", peak + on_host, "bytes"),
        Evidence("capacity of one device", capacity, "bytes"),
        Evidence("copies of host tensors that HBM holds at the peak", held, "bytes"),
        Evidence("exposed copies, share of the step", share, "share"),
    ]
    if share < FAILS_FROM_SHARE:
        return passed(evidence)
    limit = HBM_PRESSURE_FROM_SHARE * capacity
    if peak + on_host < limit:
        title = f"Tensors are offloaded although HBM has room: {text}"
        return failed(share, evidence, title=title, price=counterfactual(Change(device={part.OFFLOAD: 0.0})))
    if peak + on_host - held < limit:
        reason = f"undecided: {text}; {format_bytes(held)} of the peak are copies of tensors on the host"
        return Outcome(UNAVAILABLE, evidence=evidence, reason=reason)
    return passed(evidence, reason=f"without offloading, {text}")


def _sum_text(peak: int, on_host: int, capacity: int) -> str:
    own, beside, total = (format_bytes(size) for size in (peak, on_host, peak + on_host))
    return f"{own} at the peak and {beside} on the host make {total} of {format_bytes(capacity)}"


def _copied(rows: list[TransferRow]) -> int:
    """What lives in host memory, where no buffer assignment says it: the bytes of the tensors copied one way."""
    by_way: dict[str, int] = {}
    for row in rows:
        by_way[row.kind] = by_way.get(row.kind, 0) + (row.bytes or 0)
    return max(by_way.values(), default=0)


def _copies_held(buffers: list[BufferRow], rows: list[TransferRow]) -> int:
    """Bytes of the buffers at the peak that copies from host memory made."""
    makers = {name for row in rows for name in (row.name, row.name.replace("-start", "-done"))}
    return sum(each.bytes for each in buffers if each.name in makers)
