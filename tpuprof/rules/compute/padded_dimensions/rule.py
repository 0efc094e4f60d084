"""Arrays are padded to the chip's tiles.

## What it detects

On TPU, ops whose arrays take at least 1.25 times their bytes once padded, where these ops take at least a tenth of the
device's time.

## Why it costs time

The chip works on tiles of 8 by 128. A dimension of 130 takes as long as one of 256.

## Evidence

The ops with the padding of their arrays, by the layouts the compiler chose, device time and source lines.

## How to fix

Choose sizes that fill tiles: the last dimension a multiple of 128 (of 256 for matrix products on v6e and v7x), the
one before it of 8 (16 for bfloat16). A size just above such a multiple costs as much as the next one.

## How to fix in JAX

Choose sizes that fill tiles: the last dimension a multiple of 128 (of 256 for matrix products on v6e and v7x), the
one before it of 8 (16 for bfloat16). A size just above such a multiple costs as much as the next one.

## Limits and false positives

The price takes an op's time to grow with its padded bytes; one that another array limits gains less.

## References

- https://cloud.google.com/tpu/docs/performance-guide
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.model.device.compute import PADDED_FROM
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.shared.ops import op_evidence
from tpuprof.rules.thresholds import OPS_FROM_SHARE
from tpuprof.signals import Signals, Unavailable
from tpuprof.simulate.change import Change
from tpuprof.units import format_share


@rule(
    about="padding to the chip's tiles",
    good="Padding to the chip's tiles costs little",
    bad="Arrays are padded to the chip's tiles",
    reads=("busy_share", "is_tpu", "ops", "op_ms", "compute", "compute_ms"),
)
def check(signals: Signals) -> Outcome:
    """Fail where padded ops take enough of a TPU's time."""
    if not signals.is_tpu:
        return not_applicable("only a TPU pads to tiles of 8 by 128")
    padding = signals.ops.column("padding")
    if all(each is None for each in padding):
        raise Unavailable("no op's line in this trace tells a layout with tiles")
    rows = signals.ops.where([each is not None and each >= PADDED_FROM for each in padding])
    share = signals.compute.padded_ms_per_step / signals.compute_ms
    evidence = op_evidence(rows)
    if share < OPS_FROM_SHARE:
        return passed(evidence)
    columns = (rows.column(name) for name in ("program", "name", "self_ms", "padding"))
    taken = {(program, name): ms * (1 - 1 / times) for program, name, ms, times in zip(*columns, strict=True)}
    wasted = sum(taken.values()) / signals.op_ms
    return failed(
        wasted * signals.busy_share,
        evidence,
        title=f"Ops with padded arrays take {format_share(share)} of the device's time",
        price=counterfactual(Change(device={part.COMPUTE: 1 - wasted}), Change(), ops=taken),
        confidence="low",
    )
