"""Offloading was asked for, and does not do its job.

## What it detects

Copies to and from host memory that are in flight while the device computes for less than half of their time.

## Why it costs time

A copy costs nothing only while the device computes. The rest of its time, the device waits for it or for another copy.

## Evidence

The time that copies are in flight, summed over copies: behind compute, behind other copies, and exposed. Also how early
a copy is begun before the wait for it.

## How to fix

Move fewer and larger tensors: the inputs of blocks, not each activation inside them, so that a whole block is
computed beside each copy. Compute what is inside again. Check that a tensor really moves: `place_to_host` marks it,
and the compiler moves it only where place_to_device brings it back before its next use.

## How to fix in JAX

Offload less: choose another policy of `jax.checkpoint_policies`, such as save_and_offload_only_these_names with fewer
names, or compute cheap activations again (`jax.checkpoint`).

## Limits and false positives

torch_xla loads the module that offloading lives in with scan, too, so nothing moved may be what was meant: without a
copy this rule does not apply. The price is that of exposed-host-offload, and both say that they share it.

## References

- https://github.com/openxla/xla/issues/17541
- https://github.com/pytorch/xla/issues/8049
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, not_applicable, passed, rule
from tpuprof.rules.shared.link import floor_of, offload_price
from tpuprof.rules.thresholds import FAILS_FROM_SHARE, OFFLOAD_EXPOSED_SHARE
from tpuprof.signals import Signals, Unavailable
from tpuprof.units import format_share


@rule(
    about="overlap of offload copies",
    good="Offload copies overlap with computing, or cost little",
    bad="Offloading does not overlap with computing",
    broad=True,
    reads=("step_ms", "step_count", "device_type", "offload", "offload_share"),
)
def check(signals: Signals) -> Outcome:
    """Fail where most of the copies' own time is exposed and that takes enough of the step."""
    if not signals.offload:
        return not_applicable("nothing was offloaded to host memory")
    timed = [row for row in signals.offload if row.hidden_ms_per_step is not None]
    if not timed:
        raise Unavailable("the capture has no Async XLA Ops line, so the copies' own time is not known")
    exposed = sum(row.exposed_ms_per_step for row in timed)
    hidden = sum(row.hidden_ms_per_step or 0.0 for row in timed)
    waiting = sum(row.waiting_ms_per_step or 0.0 for row in timed)
    flying = exposed + hidden + waiting
    share = 1.0 - hidden / flying if flying else 0.0
    evidence = [
        Evidence("copy time per step that is exposed, summed over copies", exposed, "ms"),
        Evidence("copy time per step while the device computes", hidden, "ms"),
        Evidence("copy time per step while the device waits for another copy", waiting, "ms"),
    ]
    ahead = [row.ahead_ms for row in timed if row.ahead_ms is not None]
    if ahead:
        import statistics

        evidence.append(
            Evidence("a copy is begun before the wait for it (median)", statistics.median(ahead), "ms")
        )
    if share < OFFLOAD_EXPOSED_SHARE or signals.offload_share < FAILS_FROM_SHARE:
        return passed(evidence)
    priced = offload_price(signals, floor_of(signals))
    return failed(
        signals.offload_share,
        evidence,
        title=f"The device computes for only {format_share(1.0 - share)} of the time that offload copies take",
        price=priced.price,
        reason=priced.reason,
        confidence=priced.confidence,
    )
