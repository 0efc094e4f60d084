"""The matrix unit idles while the device works.

## What it detects

On TPU, a device that is busy at least half of the step and computes less than three tenths of its peak FLOP/s.

## Why it costs time

The chip is paid for its matrix unit. What keeps it from multiplying is memory traffic, small or padded matrices, or
waiting; the other rules of this category say which.

## Evidence

FLOP/s while busy against the chip's peak, the MFU of the step, and the ops that take most time with what limits each.

## How to fix

Make the multiplications larger: a larger batch per chip, sequences as rows of one product, bfloat16, fused attention.
The matrix unit is 128 wide up to v5p and 256 wide on v6e and v7x: sizes are best multiples of that number.

## How to fix in JAX

Make the multiplications larger: a larger batch per chip, `jax.vmap` instead of a Python loop, bfloat16, fused
attention. The matrix unit is 128 wide up to v5p and 256 wide on v6e and v7x: sizes are best multiples of that number.

## Limits and false positives

Models made of look-ups or element-wise work have no use for the matrix unit. FLOPs are the compiler's, which counts
rematerialised work too. No price: what limits is shown by other rules.

## References

- https://github.com/AI-Hypercomputer/torchprime
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, not_applicable, passed, rule
from tpuprof.rules.shared.ops import op_evidence
from tpuprof.rules.thresholds import LOW_MXU_BELOW
from tpuprof.signals import Signals
from tpuprof.units import format_share

# Below this share of busy time (of the step) the device's own efficiency is not what matters.
BUSY_FROM_SHARE = 0.5


@rule(
    about="use of the matrix unit",
    good="The matrix unit is put to use",
    bad="The matrix unit idles while the device works",
    broad=True,
    reads=("busy_share", "is_tpu", "ops", "compute", "mxu_share", "offload_share", "collective_share"),
)
def check(signals: Signals) -> Outcome:
    """Fail where a busy TPU stays below its threshold; there is no price."""
    if not signals.is_tpu:
        return not_applicable("only a TPU has a matrix unit")
    share = signals.mxu_share
    evidence = [Evidence("FLOP/s while busy, share of the chip's peak", share, "share")]
    compute = signals.compute
    evidence += [
        Evidence("MFU of the whole step", compute.mfu, "share"),
        Evidence("matrix multiplications per step", compute.matmul_ms_per_step, "ms"),
        *op_evidence(signals.ops),
    ]
    if share >= LOW_MXU_BELOW:
        return passed(evidence)
    if signals.busy_share - signals.offload_share - signals.collective_share < BUSY_FROM_SHARE:
        return not_applicable("the device mostly waits: see what for first", evidence)
    return failed(
        0.0,
        evidence,
        title=f"While busy, the device computes at {format_share(share)} of its peak",
        reason="it cannot be priced: other rules of this category say what limits",
    )
