"""Matrices are padded to the chip's tiles.

## What it detects

On TPU, matrix multiplications at least a fifth of whose padded size is padding, where they take at least a tenth of
the device's time.

## Why it costs time

The chip works on tiles of 8 by 128. A dimension of 130 takes as long as one of 256.

## Evidence

The multiplications with their shapes, the padding they need, device time and source lines.

## How to fix

Choose sizes that are multiples of 128 (vocabulary, width, heads' width), of 8 at least (batch).

Before:

    head = nn.Linear(768, 50257)

After:

    head = nn.Linear(768, 50304)

## Limits and false positives

XLA may fold a padded dimension into another and lose less. Which dimension lies in the lanes is taken from the order
of the shape.

## References

- https://cloud.google.com/tpu/docs/performance-guide
"""

from __future__ import annotations

from tpuprof.model import attribution as part
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.thresholds import LANES, OPS_FROM_SHARE, PADDING_FROM_SHARE, SUBLANES
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change

SHOWN = 5


@rule(good="Matrices fit the chip's tiles", bad="Matrices are padded to the chip's tiles")
def check(signals: Signals) -> Outcome:
    """Fail where padded multiplications take enough of a TPU's time."""
    if not signals.is_tpu:
        return not_applicable("only a TPU pads to tiles of 8 by 128")
    rows = [(each, each.padding(SUBLANES, LANES)) for each in signals.matmuls]
    rows = [(each, padding) for each, padding in rows if padding >= PADDING_FROM_SHARE]
    share = sum(each.self_ms for each, _ in rows) / signals.op_ms
    evidence = [
        Evidence(
            f"{each.name}: {each.text}, {padding:.0%} padding",
            each.self_ms,
            "ms over the capture",
            source=each.source,
        )
        for each, padding in rows[:SHOWN]
    ]
    if share < OPS_FROM_SHARE:
        return passed(evidence)
    wasted = sum(each.self_ms * padding for each, padding in rows) / signals.op_ms
    return failed(
        wasted * signals.busy_share,
        evidence,
        price=counterfactual(Change(device={part.COMPUTE: 1 - wasted}), Change()),
        confidence="low",
    )
