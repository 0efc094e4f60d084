"""Matrix multiplications run in float32.

## What it detects

On TPU, matrix multiplications with float32 operands that take at least a tenth of the device's time.

## Why it costs time

The matrix unit multiplies bfloat16. float32 operands take twice the HBM traffic and, at higher precision settings,
several passes.

## Evidence

The multiplications with their element type, place on the roofline, device time and source lines.

## How to fix

Run the model under autocast: multiplications take bfloat16, and the weights that the optimizer updates stay float32.
Casting the whole model with `.bfloat16()` saves more, but keep float32 master weights in the optimizer then: small
updates vanish in eight bits of mantissa.

Look at the precision as well: `torch_xla.backends.set_mat_mul_precision` decides how float32 is multiplied. At
"default" one bfloat16 pass is made and only the traffic of float32 remains to be saved; "high" makes three passes and
"highest" six. Set "high" or "highest" only where the accuracy is needed.

## How to fix in JAX

Compute in bfloat16 (`dtype=jnp.bfloat16` of the layers) and keep parameters and optimizer state in float32. Look at
`jax_default_matmul_precision`: at "default" float32 is multiplied in one bfloat16 pass, "high" makes three passes and
"highest" six.

## Limits and false positives

At default precision XLA already multiplies float32 in one bfloat16 pass, so half the traffic is what is sure to go.
Some layers need float32.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/amp.html
- https://docs.pytorch.org/xla/release/r2.9/tutorials/precision_tutorial.html
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.shared.ops import ms_of, op_evidence
from tpuprof.rules.thresholds import OPS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import format_share

# How much of a float32 multiplication's time bfloat16 leaves (ratio): half the bytes.
LEFT = 0.5
# As HLO calls it. Doubles are another matter: bfloat16 saves more there, and is not what such a program asks for.
FLOAT32 = "f32"


@rule(
    about="matrix multiplications in float32",
    good="Matrix multiplications in float32 take little",
    bad="Matrix multiplications run in float32",
    reads=("busy_share", "is_tpu", "compute", "compute_ms", "matmuls"),
)
def check(signals: Signals) -> Outcome:
    """Fail where float32 multiplications take enough of a TPU's time."""
    if not signals.is_tpu:
        return not_applicable("only a TPU multiplies bfloat16 faster")
    matmuls = signals.matmuls
    rows = matmuls.where(kind == FLOAT32 for kind in matmuls.column("matmul_type"))
    evidence = op_evidence(rows)
    share = signals.compute.float32_matmul_ms_per_step / signals.compute_ms
    if share < OPS_FROM_SHARE:
        return passed(evidence)
    return failed(
        share * signals.busy_share,
        evidence,
        title=f"Matrix multiplications in float32 take {format_share(share)} of the device's time",
        price=counterfactual(
            Change(device={part.COMPUTE: 1 - share * (1 - LEFT)}),
            Change(),
            ops=ms_of(rows, LEFT),
        ),
        confidence="low",
    )
