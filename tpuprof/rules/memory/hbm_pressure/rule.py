"""HBM is nearly full.

## What it detects

A peak of at least nine tenths of a device's HBM.

## Why it costs time

XLA rematerialises and splits work to stay below the limit, and a larger batch, which would use the chip better, does
not fit.

## Evidence

Peak as a share of capacity, the largest buffers with the lines that made them, and what fragmentation takes. What
recomputing or offloading would give is a preflight's comparison, where one is in the run folder (docs/preflight.md).

## How to fix

Compute activations again instead of keeping them (`torch_xla.utils.checkpoint.checkpoint`: the checkpoint of torch
alone is undone by XLA, which merges equal computations), offload them, or shard parameters and optimizer state with
FSDPv2.

## How to fix in JAX

Compute activations again instead of keeping them (`jax.checkpoint` around each layer, with a policy of
`jax.checkpoint_policies`), offload them, shard parameters and optimizer state, and donate what a step replaces.

## Limits and false positives

A full HBM that fits is not a fault by itself: severity is zero, since no step time is known to be lost.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/fsdpv2.html
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, passed, rule
from tpuprof.rules.shared.preflight import variant_evidence
from tpuprof.rules.thresholds import HBM_PRESSURE_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.units import format_share

SHOWN = 5


@rule(
    about="HBM room",
    good="HBM has room",
    bad="HBM is nearly full",
    reads=("command_if_noted", "memory", "hbm_share", "preflight"),
)
def check(signals: Signals) -> Outcome:
    """Fail from a share of the capacity on, without a price."""
    share = signals.hbm_share
    evidence = [Evidence("peak HBM, share of capacity", share, "share")]
    evidence += [
        Evidence(f"{row.name} {row.shape}", row.bytes, "bytes", source=row.source)
        for row in signals.memory.buffers[:SHOWN]
    ]
    if signals.memory.fragmented_bytes:
        evidence.append(
            Evidence("lost to fragmentation at the peak", signals.memory.fragmented_bytes, "bytes")
        )
    if share < HBM_PRESSURE_FROM_SHARE:
        return passed(evidence)
    evidence += variant_evidence(signals, "recomputing or offloading activations", "recomputed.py")
    return failed(
        0.0,
        evidence,
        title=f"{format_share(share)} of HBM is full",
        reason="it cannot be priced: what more room would gain is not in the trace",
    )
