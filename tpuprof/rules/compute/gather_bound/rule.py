"""Rows of a table are looked up one by one.

## What it detects

On TPU, ops that gather or scatter rows of a table (an embedding, its gradient, indexing by a list) and take at least a
tenth of the device's time. A fusion counts where the trace has its program and what it looks up is at least half of
what it works on.

## Why it costs time

Each row is an access of its own to HBM, and the matrix unit idles meanwhile. A row is short beside what HBM moves in
the same time. The gradient of a lookup adds rows to the table, and rows with the same number one after the other.

## Evidence

The ops with their device time and source lines.

## How to fix

Look a small table up by a matrix product of the chosen rows, one number 1 in each, and the table. It reads the table
once, and its gradient is a matrix product as well. The product does as much work as the table has rows, so this pays
for hundreds of rows (positions, types, categories), not for a vocabulary. Of a float32 table the product rounds rows to
bfloat16, unless its precision is "highest" (`torch_xla.backends.set_mat_mul_precision`). Keep large tables in bfloat16,
and look several features up in one joined table.

## How to fix in JAX

Look a small table up by a matrix product: `jax.nn.one_hot(ids, table.shape[0], dtype=table.dtype) @ table`. Of a
float32 table it rounds rows to bfloat16: `jnp.matmul(..., precision="highest")` does not. Keep large tables in
bfloat16, and look several features up in one joined table. On chips with SparseCores, large tables belong there.

## Limits and false positives

A lookup that moves long rows near the bandwidth of HBM cannot be made faster. Advice is for training steps: a step that
generates text looks up few rows. Without the program of a large fusion the rule does not say that all is well. A
predicted run has no time for lookups: the TPU compiler states no cycles for them.

## References

- https://github.com/pytorch/xla/issues/2318
- https://github.com/pytorch/xla/issues/8720
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.report.op_rows import OpRows
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.shared.ops import ms_of, op_evidence
from tpuprof.rules.thresholds import OPS_FROM_SHARE
from tpuprof.signals import Signals, Unavailable
from tpuprof.simulate.change import Change
from tpuprof.units import format_share


@rule(
    about="lookups of rows",
    good="Lookups of rows take little",
    bad="Rows of a table are looked up one by one",
    reads=("busy_share", "predicted", "is_tpu", "ops", "compute_ms"),
)
def check(signals: Signals) -> Outcome:
    """Fail where gathers and scatters take enough of a TPU's time."""
    if not signals.is_tpu:
        return not_applicable("elsewhere a lookup is as fast as other reads")
    if signals.predicted:
        raise Unavailable(
            "a predicted run has no time for lookups: the TPU compiler states no cycles for them"
        )
    looks_up = signals.ops.column("looks_up")
    rows = signals.ops.where(looks_up)
    kinds = zip(looks_up, signals.ops.column("kind"), strict=True)
    doubtful = signals.ops.where([found is None and kind == "compute" for found, kind in kinds])
    share, unknown = (_share(chosen, signals) for chosen in (rows, doubtful))
    evidence = op_evidence(rows)
    if share >= OPS_FROM_SHARE:
        return failed(
            share * signals.busy_share,
            evidence,
            title=f"Lookups of rows take {format_share(share)} of the device's time",
            price=counterfactual(
                Change(device={part.COMPUTE: 1 - share}),
                Change(),
                ops=ms_of(rows),
            ),
            confidence="low",
        )
    if share + unknown >= OPS_FROM_SHARE:
        raise Unavailable(
            f"ops that take {format_share(unknown)} of the device's time may look rows up: the trace does not have the "
            "programs that say what its fusions do"
        )
    return passed(evidence)


def _share(ops: OpRows, signals: Signals) -> float:
    return ops.ms_per_step() / signals.compute_ms
