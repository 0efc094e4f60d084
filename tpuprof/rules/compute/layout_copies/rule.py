"""The device copies and transposes instead of computing.

## What it detects

On TPU, copies and transposes inside device memory that take at least a tenth of the device's time.

## Why it costs time

A tensor whose layout does not suit its next user is rewritten, which moves all of it through HBM and computes nothing.

## Evidence

The copies with their device time and source lines.

## How to fix

Keep tensors in the order in which they are multiplied: dimensions that are multiplied one by one (batch, heads)
first, the two that a matrix product works on last. Turn data once where it is made, not in every step. Keep
parameters that scan carries in place: let their buffers be donated.

## How to fix in JAX

Keep arrays in the order in which they are multiplied: batch dimensions first, the two of the matrix product last.
Turn data once where it is made. Donate buffers that a step replaces (`jax.jit(..., donate_argnums=...)`).

## Limits and false positives

Some copies are donated buffers put back in place; XLA may need others for collectives.

## References

- https://openxla.org/xla/shapes
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.shared.ops import ms_of, op_evidence
from tpuprof.rules.thresholds import OPS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import format_share


@rule(
    about="copies between layouts",
    good="Copies between layouts take little",
    bad="The device copies and transposes instead of computing",
    reads=("busy_share", "is_tpu", "ops", "compute", "compute_ms"),
)
def check(signals: Signals) -> Outcome:
    """Fail where layout copies take enough of a TPU's time."""
    if not signals.is_tpu:
        return not_applicable("layouts are chosen for the TPU's tiles only there")
    share = signals.compute.layout_copy_ms_per_step / signals.compute_ms
    rows = signals.ops.where(signals.ops.column("layout_copy"))
    evidence = op_evidence(rows)
    if share < OPS_FROM_SHARE:
        return passed(evidence)
    return failed(
        share * signals.busy_share,
        evidence,
        title=f"Copies and transposes take {format_share(share)} of the device's time",
        price=counterfactual(
            Change(device={part.COMPUTE: 1 - share}),
            Change(),
            ops=ms_of(rows),
        ),
        confidence="low",
    )
