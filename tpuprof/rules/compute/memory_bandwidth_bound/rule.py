"""HBM bandwidth limits the device.

## What it detects

On TPU, a device whose ops move so many bytes that HBM at its peak needs at least seven tenths of the busy time for
them.

## Why it costs time

Ops that move much and compute little run at the speed of memory; the matrix unit waits.

## Evidence

The time HBM needs at its peak, and the ops that memory limits, with how near to that limit they come.

## How to fix

Read the weights for more rows at once: a larger batch, or all sequences in one product. Compute in bfloat16 under
autocast, and fuse attention. Optimizer state can be bfloat16 only if float32 master weights are kept beside it:
Adam's updates are often smaller than bfloat16 resolves (one part in 256), and training then stands still.

## How to fix in JAX

Read the weights for more rows at once: a larger batch, or `jax.vmap` over sequences. Compute in bfloat16, and keep
float32 master weights in the optimizer: Adam's updates are often smaller than bfloat16 resolves.

## Limits and false positives

Bytes are the compiler's estimate and count traffic that stays in VMEM; an op counts at most its own time. Decoding a
token at a time is bound by memory by nature. No price: the bytes a fix leaves are not known.

## References

- https://jax-ml.github.io/scaling-book/roofline/
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, not_applicable, passed, rule
from tpuprof.rules.shared.ops import op_evidence
from tpuprof.rules.thresholds import BANDWIDTH_BOUND_FROM
from tpuprof.signals import Signals
from tpuprof.units import format_share


@rule(
    about="use of HBM bandwidth",
    good="HBM bandwidth does not limit",
    bad="HBM bandwidth limits the device",
    broad=True,
    reads=("is_tpu", "ops", "op_ms", "bandwidth_share"),
)
def check(signals: Signals) -> Outcome:
    """Fail from a share of the peak bandwidth on; there is no price."""
    if not signals.is_tpu:
        return not_applicable("the peak bandwidth is known for TPUs only")
    share = signals.bandwidth_share
    evidence = [Evidence("time HBM needs at its peak, share of the device's busy time", share, "share")]
    limited = signals.ops.where(limit == "memory" for limit in signals.ops.column("limit"))
    evidence += [
        Evidence(
            "ops that memory limits, share of the device's time",
            sum(limited.column("self_ms")) / signals.op_ms,
            "share",
        ),
        *op_evidence(limited),
    ]
    if share < BANDWIDTH_BOUND_FROM:
        return passed(evidence)
    return failed(
        0.0,
        evidence,
        title=f"HBM is busy {format_share(share)} of the device's time",
        reason="it cannot be priced: how many bytes a fix would leave is not in the trace",
    )
