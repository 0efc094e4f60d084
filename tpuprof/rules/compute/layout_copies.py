"""The device copies and transposes instead of computing.

## What it detects

On TPU, copies and transposes inside device memory that take at least a tenth of the device's time.

## Why it costs time

A tensor whose layout does not suit its next user is rewritten, which moves all of it through HBM and computes nothing.

## Evidence

The copies with their device time and source lines.

## How to fix

Keep one order of dimensions from op to op, and avoid permute and contiguous between matrix multiplications; for
parameters that are carried through scan, keep donated buffers in place.

Before:

    y = x.permute(0, 2, 1).contiguous() @ w

After:

    y = torch.einsum("bij,ik->bkj", x, w)

## Limits and false positives

Some copies are donated buffers put back in place; XLA may need others for collectives.

## References

- https://openxla.org/xla/shapes
"""

from __future__ import annotations

from tpuprof.model import attribution as part
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.thresholds import OPS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change

SHOWN = 5
_NAMES = ("copy", "transpose")
_CATEGORIES = ("data formatting", "copy", "transpose")


@rule(good="Copies between layouts take little", bad="The device copies and transposes instead of computing")
def check(signals: Signals) -> Outcome:
    """Fail where layout copies take enough of a TPU's time."""
    if not signals.is_tpu:
        return not_applicable("layouts are chosen for the TPU's tiles only there")
    rows = [
        op
        for op in signals.ops
        if op.kind == "compute" and (op.name.startswith(_NAMES) or op.category in _CATEGORIES)
    ]
    ms = sum(op.self_ms for op in rows)
    share = ms / signals.op_ms
    evidence = [Evidence(op.name, op.self_ms, "ms over the capture", source=op.source) for op in rows[:SHOWN]]
    if share < OPS_FROM_SHARE:
        return passed(evidence)
    return failed(
        share * signals.busy_share,
        evidence,
        price=counterfactual(Change(device={part.COMPUTE: 1 - share}), Change()),
        confidence="low",
    )
