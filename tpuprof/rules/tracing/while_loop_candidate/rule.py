"""A Python loop of the same steps stands unrolled in the program.

## What it detects

Blocks that repeat in a program without a loop and are not layers with parameters of their own: an iterative solver, a
decoding loop.

## Why it costs time

Each pass is traced and compiled on its own. As a while loop the program holds the body once.

## Evidence

How many copies of which block the program holds.

## How to fix

Make the loop a while loop on the device: `torch._higher_order_ops.while_loop.while_loop` once
`torch_xla.experimental.fori_loop` is imported. The body must return as many tensors as it takes, of the same shapes
and dtypes, and what it reads must be carried. In torch_xla 2.9 what it takes must be computed before the loop (cut
the graph first), and it may hold no numbers but 0 and 1: `x + x`, not `2 * x`. Where gradients are wanted, use
`torch_xla.experimental.scan.scan` with is_fn_pure=True and a function defined once at module level: a lambda made in
each step is traced in each step.

## Limits and false positives

A while loop keeps XLA from fusing across passes; short loops are faster unrolled. Layers of a model are the business
of unrolled-layers. Advice only: it never fails.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/fori_loop.html
- https://docs.pytorch.org/xla/release/r2.9/features/scan.html
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, not_applicable, passed, rule
from tpuprof.rules.thresholds import UNROLLED_FROM_LAYERS
from tpuprof.signals import Signals

UNROLLED = "unrolled"


@rule(
    about="blocks repeated without a loop",
    good="No loop is worth folding",
    bad="A loop stands unrolled in the program",
    reads=("loops",),
)
def check(signals: Signals) -> Outcome:
    """Say which repeated blocks a loop would fold; it is advice, so it never fails."""
    rows = [
        row for row in signals.loops if row.kind == UNROLLED and (row.trip_count or 0) >= UNROLLED_FROM_LAYERS
    ]
    if not rows:
        return not_applicable("no block was seen to repeat often in the programs of this capture")
    evidence = [Evidence(row.detail or row.name, row.trip_count, "copies", source=row.source) for row in rows]
    return passed(evidence, title="Repeated blocks could be a while loop or a scan")
