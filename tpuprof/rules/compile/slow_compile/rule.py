"""Compiling keeps training from starting.

## What it detects

Graph cuts before the captured steps that spent at least twenty seconds on compiling.

## Why it costs time

Every start of the run waits for them: each edit, each preemption, each resumed job.

## Evidence

Graphs compiled before training was steady, the time those graph cuts took; of a predicted run, what the
TPU compiler took for the step; how many layers repeat, and how much of the program they are, where annotations name
them. A preflight's compile times, where it is in the run folder.

## How to fix

Make the program smaller: fold repeated layers with scan_layers. On TPU compare the step before you keep it: scan
stacks every activation, and in preflight's comparison of a 24-layer decoder (docs/preflight.md) it halved the compile
and doubled the step. Then let later runs find programs compiled, where that works: see persistent-cache-off.

## How to fix in TorchTPU

Have later starts find programs compiled: see persistent-cache-off. Of a model under torch.compile, compile the block
that repeats instead of the whole model (`for block in blocks: block.compile()`): programs of equal blocks are one
program. On the CPU plugin the start of a model of forty blocks took a third of the CPU time, and its step took longer.
On a device this was not tried.

## How to fix in JAX

Make the program smaller: `jax.lax.scan` over stacked layers. Compare the step before you keep it: scan stores every
activation unless the body is under `jax.checkpoint`. Then keep compiled programs: see persistent-cache-off.

## Limits and false positives

The time is that of the graph cuts that compiled, tracing's last part included. The price spreads it over the steps of
a run of ten thousand steps: a longer run pays less a step. Where annotations name the layers
(`tpuprof.annotate_modules`), or a JAX program on the CPU device tells that they repeat, folding saves the compile of
their ops, all but one layer's, and compiling is taken to last as long as the program has ops: at least those that
belong to a layer, in what the line compiled that compiled longest, at most those that name nothing as well. Else it is
not known what folding leaves, and the whole compile is the upper bound. What scan adds to stack parameters and to
cut gradients apart is not counted: layers of many small parameters save less.

## References

- https://github.com/pytorch/xla/issues/6614
- https://docs.pytorch.org/xla/release/r2.9/features/scan.html
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import STABLE, Outcome, failed, passed, rule
from tpuprof.rules.shared.startup import at_stake, compile_evidence, saved_at_start, slow_start
from tpuprof.signals import Signals


@rule(
    status=STABLE,
    about="compile time before training is steady",
    good="Compiling does not hold up the start",
    bad="Compiling keeps training from starting",
    broad=True,
    reads=(
        "step_ms",
        "startup_compile_seconds",
        "startup_compile_source",
        "startup_compiles",
        "startup_longest_line_share",
        "predicted",
        "unrolled",
        "preflight",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where compiles before the capture take too long."""
    evidence = compile_evidence(signals)
    if not slow_start(signals):
        return passed(evidence)
    seconds = signals.startup_compile_seconds
    if signals.predicted:
        return failed(
            0.0,
            evidence,
            title=f"The TPU compiler took {seconds:.0f} s for the step",
            reason="it cannot be priced: that was on the machine that predicted this run, not on the TPU's host",
        )
    least, most, layers = _folded(signals)
    return failed(
        at_stake(signals),
        [*evidence, *layers],
        title=f"Training waited {seconds:.0f} s for the compiler before it was steady",
        price=saved_at_start(signals, least, most),
    )


def _folded(signals: Signals) -> tuple[float, float, list[Evidence]]:
    """Share of the compiles that folding repeated layers saves, at least and at most, and what tells of them.

    At least of the line that compiled longest: programs of other lines may hold no layers.
    """
    row = signals.unrolled
    if row is None or not row.trip_count or row.ops_share_low is None or row.ops_share_high is None:
        return 0.0, 1.0, []
    folded = 1 - 1 / row.trip_count
    evidence = [
        Evidence(f"{row.detail} in {row.module or 'a program'}", row.trip_count, "copies", source=row.source),
        Evidence("ops that belong to one of them, of all ops of the program", row.ops_share_low, "share"),
        Evidence("with those that name nothing", row.ops_share_high, "share"),
    ]
    least = row.ops_share_low * folded * signals.startup_longest_line_share
    return least, row.ops_share_high * folded, evidence
