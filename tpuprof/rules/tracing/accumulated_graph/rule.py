"""Gradients of several micro-batches are computed in one graph.

## What it detects

A program that adds up the gradients of at least four batches which share no work: gradient accumulation without a graph
cut between the micro-batches. It fails where exposed tracing takes a tenth of the step, or where compiling took so long
that it holds up the start.

## Why it costs time

The model stands in the graph once for each micro-batch. The host traces all of them in each step, and the compiler
takes as many times longer, or more. Buffers of several micro-batches may be alive at the same time.

## Evidence

How many micro-batches the program holds, exposed tracing, and the time of compiles before the capture.

## How to fix

Make the micro-batches a loop on the device:
`torch_xla.experimental.gradient_accumulation.gradient_accumulation(train_step, (data, labels), model)`. It loops over
the first dimension of the tensors, so all micro-batches have one size: pad a shorter last one, and keep padding out of
the loss. It runs the backward pass, and divides by the number of micro-batches itself. In torch_xla 2.9 it waits for
the device in each step.

Or cut the graph after each micro-batch (`torch_xla.sync()` after `backward()`). The host then traces as much as before,
but compiles a small program, and the device runs one micro-batch while the host traces the next one.

## How to fix in JAX

Loop over the micro-batches with `jax.lax.scan`, and carry the sum of the gradients: the model is then traced and
compiled once.

## Limits and false positives

Where one large batch fits into memory, it is faster than either. A program whose weights are used in each time step, or
for two views that meet in the loss, is not meant and not named. Only the program that takes most memory is looked at.
Where a read makes host and device take turns, exposed tracing is the read's doing: see device-to-host-sync. A read in
each micro-batch runs a graph of its own, and the gradients still meet in one graph at the end of the step. A loop on
the device cannot read, so the reads have to go first, and the finding has low confidence. What the host traces for
them is not in the share.

## References

- https://github.com/pytorch/xla/issues/3593
- https://github.com/pytorch/xla/pull/8584
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.shared.startup import at_stake, compile_evidence, saved_at_start, slow_start
from tpuprof.rules.shared.turns import takes_turns
from tpuprof.rules.thresholds import ACCUMULATED_FROM_BATCHES, TRACING_FROM_SHARE
from tpuprof.signals import Signals, Unavailable
from tpuprof.simulate.change import Change
from tpuprof.units import format_share

# Share of tracing that is outside the micro-batches: the optimizer, the loop itself (share). A judgement.
OUTSIDE_AT_MOST = 0.5
# What a title adds where the program reads a value in each micro-batch.
READ_FIRST = (
    ". A value is read in each of them: no loop on the device can do that, so the reads have to go first"
)


@rule(
    about="micro-batches in one graph",
    good="Micro-batches in one graph cost little or nothing",
    bad="Gradients of several micro-batches are computed in one graph",
    reads=(
        "step_ms",
        "steps",
        "typical_steps",
        "typical_tracing_ms",
        "tracing_hidden_ms",
        "graphs_for_reads_ms",
        "cutting_reads",
        "bound",
        "startup_compile_seconds",
        "startup_compile_source",
        "startup_compiles",
        "predicted",
        "framework",
        "memory",
        "preflight",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where enough micro-batches stand in one graph, and tracing or compiling it takes enough time."""
    count = signals.memory.micro_batches
    if count is None:
        raise Unavailable("how many batches a program computes is only in the programs that a profile embeds")
    if count <= 1:
        return not_applicable("no program adds up the gradients of several batches")
    evidence = [Evidence("micro-batches in one program", count, "batches")]
    if count < ACCUMULATED_FROM_BATCHES:
        return passed(evidence)
    title = f"The gradients of {count} micro-batches are computed in one graph"
    share = _tracing_share(signals)
    turns = takes_turns(signals) if share is not None and share >= TRACING_FROM_SHARE else None
    if share is not None and share >= TRACING_FROM_SHARE and turns is None:
        return _traced(signals, count, share, title)
    if not _slow_start(signals):
        return passed(
            evidence,
            reason=turns[1]
            if turns
            else "tracing them is hidden, or takes little, and compiling them did not take long",
        )
    return failed(
        0.0 if signals.predicted else at_stake(signals),
        [*evidence, *compile_evidence(signals)],
        title=f"{title}; compiling them took {signals.startup_compile_seconds:.0f} s",
        price=None if signals.predicted else saved_at_start(signals, 0.0, 1 - 1 / count),
        reason="it cannot be priced: the compiler ran on another machine" if signals.predicted else "",
        confidence="low",
    )


def _traced(signals: Signals, count: int, share: float, title: str) -> Outcome:
    """What is said where tracing the micro-batches leaves the device idle for such a share of all steps."""
    left = 1 / count
    reading = READ_FIRST if _reads_in_each(signals, count) else ""
    return failed(
        share,
        [
            Evidence("micro-batches in one program", count, "batches"),
            Evidence("exposed tracing per step", share * signals.step_ms, "ms"),
        ],
        title=f"{title}; tracing them keeps the device waiting {format_share(share)} of each step{reading}",
        price=counterfactual(
            Change(host={part.TRACING: left}),
            Change(host={part.TRACING: OUTSIDE_AT_MOST + (1 - OUTSIDE_AT_MOST) * left}),
        ),
        confidence="low" if reading else "medium",
    )


def _tracing_share(signals: Signals) -> float | None:
    """Exposed tracing as a share of all steps' time, without graphs of reads, which go with the reads.

    None where a step is not traced, or nothing tells.
    """
    if signals.framework == "jax" or signals.predicted:
        return None
    try:
        typical = signals.typical_tracing_ms
    except Unavailable:
        return None
    traced = typical * len(signals.typical_steps) / len(signals.steps)
    return max(traced - signals.graphs_for_reads_ms, 0.0) / signals.step_ms


def _reads_in_each(signals: Signals, count: int) -> bool:
    """Whether reads run graphs at least as often as there are micro-batches."""
    return sum(row.per_step for row in signals.cutting_reads) >= count


def _slow_start(signals: Signals) -> bool:
    try:
        return slow_start(signals)
    except Unavailable:
        return False
