"""The program computes in double precision.

## What it detects

Ops that compute with arrays of float64 (or complex128), and take at least a tenth of the device's time. Scalars, as a
learning rate or a count of steps, do not count.

## Why it costs time

A float64 takes twice the bytes of a float32, and a CPU computes half as many at a time. TPUs have no units for it: the
compiler computes each with a pair of float32 and many instructions. A training step of one layer was predicted to take
175 times as long on v5e (1.3 ms instead of 7.6 µs).

## Evidence

The ops with their device time and source lines, and where the doubles begin: the inputs of the program that are
float64, or else the lines that make them.

## How to fix

Only where double precision is not needed: make the batch and the weights float32. NumPy makes float64, and
`torch.from_numpy` and `torch.tensor` keep it: `torch.from_numpy(array).float()`, or `dtype=np.float32` where NumPy
makes the array. Look for `model.double()`, `loss.double()` and `torch.set_default_dtype(torch.float64)`.

## How to fix in JAX

Only where double precision is not needed: leave `jax_enable_x64` off, and unset `JAX_ENABLE_X64`. JAX then takes the
float64 arrays of NumPy as float32. Where one part needs float64, make the rest float32: `dtype=jnp.float32` for
parameters, and `x.astype(np.float32)` for the batch before the step takes it.

## Limits and false positives

A solver, a simulation or a fit may need double precision: then this is no fault, and the time is its price. Nothing in
a trace says which it is. Results change in the seventh digit.

For a TPU the compiler rewrites float64, and the program does not say which of its ops stand for it. Two kinds count:
ops that follow from both halves of float64 inputs, on the way to float64 results, whole loops at a time; and ops that
sum pairs of float32 with a correction. The first kind is too much where an input is scaled in float64, a model computes
in float32, and its results become float64 again. Where doubles are made and used up within the program, only the
second kind is seen: there the saving may be larger.

The most that is promised is all of the time on a TPU, three quarters elsewhere. The least leaves out ops of a TPU that
also multiply matrices: the multiplication may be in float32 already.

## References

- https://docs.jax.dev/en/latest/default_dtypes.html
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.report.op_rows import OpRows
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, counterfactual, failed, passed, rule
from tpuprof.rules.shared.ops import ms_of, op_evidence
from tpuprof.rules.thresholds import OPS_FROM_SHARE
from tpuprof.signals import Signals, Unavailable
from tpuprof.simulate.change import Change
from tpuprof.units import format_share

# How much of such an op's time float32 leaves (ratio): half the bytes, and twice as many numbers in a CPU's vector.
LEFT = 0.5
# The same at best (ratio): products of float32 may run in a faster library (measured: of a training step with torch_xla
# on a CPU 68 ms of 286 were left, of one with JAX 12.4 of 20).
LEFT_AT_BEST = 0.25
# The same on a TPU at best (ratio): next to nothing is left of what emulates it (measured: one in 175).
LEFT_OF_EMULATION = 0.0
# How much of what half the bytes save is gained at least where a device computes doubles itself (ratio). A judgement:
# ops that wait for something other than bytes and arithmetic, as short ones do for their start, gain little.
GAINED_AT_LEAST = 0.5


@rule(
    about="computing in double precision",
    good="Computing in double precision takes little",
    bad="The program computes in double precision",
    reads=("busy_share", "is_tpu", "ops", "compute_ms"),
)
def check(signals: Signals) -> Outcome:
    """Fail where ops in double precision take enough of the device's time."""
    double = signals.ops.column("double")
    if not {*double} - {None}:
        raise Unavailable("the trace embeds no HLO program, which says what types ops compute in")
    kinds = zip(double, signals.ops.column("kind"), strict=True)
    rows = signals.ops.where([each and kind == "compute" for each, kind in kinds])
    share = _share(rows, signals)
    if share < OPS_FROM_SHARE:
        return passed(op_evidence(rows))
    left = LEFT_OF_EMULATION if signals.is_tpu else LEFT_AT_BEST
    if signals.is_tpu:
        alone = rows.where(not each for each in rows.column("matmul_type"))
        least = _share(alone, signals) * (1 - LEFT)
    else:
        least = share * (1 - LEFT) * GAINED_AT_LEAST
    begin = next((each for each in rows.column("double_from") if each), "")
    evidence = [Evidence(f"doubles begin at {begin}", share, "share")] if begin else []
    return failed(
        share * (1 - left) * signals.busy_share,
        [*evidence, *op_evidence(rows)],
        title=f"Ops in double precision (float64) take {format_share(share)} of the device's time",
        price=counterfactual(
            Change(device={part.COMPUTE: 1 - share * (1 - left)}),
            Change(device={part.COMPUTE: 1 - least}),
            ops=ms_of(rows, left),
        ),
    )


def _share(rows: OpRows, signals: Signals) -> float:
    """Share of the device's computing that these ops take (ratio)."""
    return min(rows.ms_per_step() / signals.compute_ms, 1.0)
