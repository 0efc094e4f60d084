"""Inputs change shape, and each new shape compiles.

## What it detects

Compiles inside the captured steps whose program differs from one before it by the shape or dtype of an input.

## Why it costs time

XLA compiles for exact shapes: a batch of a new length is a new program, and training waits for the compiler.

## Evidence

Each compile with its step, its time, the shapes that changed, and the line that cut the graph.

## How to fix

Give all batches one shape, or a few: pad sequences up to the next of a few lengths, and drop the last incomplete
batch (`drop_last=True`). A mask keeps padding out of the loss. A boolean mask as index (`x[mask]`, `x[mask] = v`) and
`nonzero` make a shape out of data: `torch.where(mask, v, x)` or `x.masked_fill(mask, v)` keeps one shape.

## How to fix in TorchTPU

Give all batches one shape, or a few: pad sequences up to the next of a few lengths, and drop the last incomplete
batch (`drop_last=True`). A boolean mask as index (`x[mask]`) and `nonzero` make a shape out of data:
`torch.where(mask, v, x)` keeps one. Under torch.compile each size is a program of its own as well: torch_tpu 0.2
refuses `dynamic=True`. Its way to one program for several sizes is
`torch._dynamo.mark_dynamic(batch, 0, min=2, max=64)`, which the compiler of the CPU plugin refuses. On a device it was
not tried.

## How to fix in JAX

Give all batches one shape, or a few: pad sequences up to the next of a few lengths, and drop the last incomplete
batch. `jax.jit` compiles for each shape it meets.

## Limits and false positives

The first steps of a run compile every shape once, which is not a fault: capture after warm-up. The price leaves the
padding's own computing out.

## References

- https://github.com/pytorch/xla/issues/1368
- https://docs.pytorch.org/xla/release/r2.9/perf/recompilation.html
"""

from __future__ import annotations

from tpuprof.rules.base import STABLE, Outcome, rule
from tpuprof.rules.shared.recompiles import check_kinds
from tpuprof.signals import Signals


@rule(
    status=STABLE,
    about="compiles for new input shapes",
    good="Compiles for new input shapes cost little or nothing",
    bad="Inputs change shape, and each new shape compiles",
    reads=(
        "step_ms",
        "steps",
        "tracing_hidden_ms",
        "phases",
        "step_compiles",
        "compile_share",
        "records_if_noted",
        "after_capture",
        "framework",
        "uncut_steps",
        "cutting_reads",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where compiles for a new shape or dtype take enough of the step time."""
    return check_kinds(signals, ("shape", "dtype"))
