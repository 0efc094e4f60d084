"""bfloat16 arrays are written out again as float32.

## What it detects

On TPU, ops other than matrix multiplications whose result is float32, while an operand of the same dimensions is
bfloat16 and none is float32, and which take at least a tenth of the device's time.

## Why it costs time

The same numbers take twice the bytes, and what reads them next reads twice as much. Memory limits such ops.

## Evidence

The ops with their device time and source lines.

## How to fix

Look at the line of each op: `.float()` on activations or logits, a scale or mask that was made in float32, a norm that
returns float32. Make constants in the type of the model (`torch.full(..., dtype=x.dtype)`), and cast back right after
what needs float32 (`norm(x.float()).to(x.dtype)`): within one fused op float32 costs nothing. Sum a loss over chunks of
the logits, where float32 is needed there.

## How to fix in JAX

Look at the line of each op: `astype(jnp.float32)`, a NumPy constant, or a layer without `dtype`. Make constants in the
type of `x`, and cast back right after what needs float32: within one fused op float32 costs nothing.

## Limits and false positives

Sums over many numbers (loss, norms) need float32, but as the sum, not as an array of all elements. An op that adds to
what was float32 before (master weights, sums of gradients) does not count. A compiler that fuses the cast with what
reads it hides it from this rule, and then it costs nothing.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/amp.html
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.shared.ops import ms_of, op_evidence
from tpuprof.rules.thresholds import OPS_FROM_SHARE
from tpuprof.signals import Signals, Unavailable
from tpuprof.simulate.change import Change
from tpuprof.units import format_share

# How much of such an op's time stays with a result of half the bytes (ratio): it reads two bytes for each element and
# writes four; in bfloat16 it writes two. Where the whole op goes, none stays.
LEFT_AT_MOST = 4 / 6


@rule(
    about="float32 copies of bfloat16 arrays",
    good="Float32 copies of bfloat16 arrays take little",
    bad="bfloat16 arrays are written out again as float32",
    reads=("busy_share", "is_tpu", "ops", "compute_ms"),
)
def check(signals: Signals) -> Outcome:
    """Fail where ops that widen arrays take enough of a TPU's time."""
    if not signals.is_tpu:
        return not_applicable("bfloat16 is the type of a TPU's matrix unit")
    upcast = signals.ops.column("upcast")
    if all(each is None for each in upcast):
        raise Unavailable("the trace has no HLO lines of ops, which tell the types that they read and write")
    rows = signals.ops.where(upcast)
    share = rows.ms_per_step() / signals.compute_ms
    evidence = op_evidence(rows)
    if share < OPS_FROM_SHARE:
        return passed(evidence)
    return failed(
        share * signals.busy_share,
        evidence,
        title=f"Ops that write bfloat16 arrays as float32 take {format_share(share)} of the device's time",
        price=counterfactual(
            Change(device={part.COMPUTE: 1 - share}),
            Change(device={part.COMPUTE: 1 - share * (1 - LEFT_AT_MOST)}),
            ops=ms_of(rows),
        ),
        confidence="low",
    )
