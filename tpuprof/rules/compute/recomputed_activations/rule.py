"""Activations are computed again, though memory may have room for them.

## What it detects

Ops of the step's program that compute again what it computed before, as gradient checkpointing makes them do: the
block's input is kept, and the block runs again for its gradients. Where the memory of the device is known to have no
room for what they compute, the rule passes.

## Why it costs time

A block that is computed again costs its forward pass twice. Of a whole model that is a fourth of the step's
floating-point operations. What it buys is memory, and memory that nothing needs is worth nothing.

## Evidence

The ops, with their device time; what their results take together, the peak of the device's memory, and its capacity.

## How to fix

Where the results fit into memory, keep them: call the block itself instead of `checkpoint(block, x)`. Where only some
do, keep some: checkpoint every second block, or those with the largest activations for their time, as attention
without a fused kernel. Where you need the memory for a larger batch, compare samples per second, and not steps.

## How to fix in JAX

Where the results fit into memory, keep them: take `jax.checkpoint` (`nn.remat`) away. Where only some do, keep those
that cost most to compute: `jax.checkpoint(block, policy=jax.checkpoint_policies.dots_saveable)` keeps the results of
matrix multiplications, and computes the rest again. Where you need the memory for a larger batch, compare samples per
second, and not steps.

## Limits and false positives

The programs are read where torch_xla's gradient checkpointing was loaded, or where JAX marks such ops. Of torch_xla,
what is counted are products (matrix multiplications, convolutions) that the program holds twice, of the same values,
and other ops whose result it holds twice: elementwise work that is fused in another way is not, and what loops compute
again is not, as under `scan`. Copies that XLA itself makes where memory is short (`.remat` in their names) do not
count. What the results take is their sum, and what is alive at once may be less or more: the rule asks for room for
twice of it before it says that they fit. Where the memory of the device is unknown, confidence is low. To keep
activations costs writes and reads of memory, so that the price begins at half of what the ops take.

## References

- https://github.com/pytorch/xla/issues/5766
- https://docs.jax.dev/en/latest/gradient-checkpointing.html
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tpuprof import parts as part
from tpuprof.report.schema import Evidence
from tpuprof.report.user_frames import last_users_line
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.library_callers import stacks_of
from tpuprof.rules.shared.ops import ms_of, op_evidence
from tpuprof.rules.shared.own_cpus import short_of_cpus
from tpuprof.rules.thresholds import HBM_PRESSURE_FROM_SHARE, OPS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import format_bytes, format_share

# The function that runs a block to compute it again later, and its file, as frames of stacks have them.
_CALL, _CALLED = "checkpoint (", "torch_xla/utils/checkpoint.py:"
# How much of the ops' time is saved at least where their results are kept (ratio): they are written and read instead. A
# judgement.
SAVED_AT_LEAST = 0.5
# Times the bytes of their results for which there must be room (ratio): what is fused with them has results that are
# not among them. A judgement.
ROOM_FOR = 2


@rule(
    about="activations that are computed again",
    good="Hardly any activation is computed again",
    bad="Activations are computed again, though memory may have room",
    reads=(
        "stacks_if_sampled",
        "recomputed_ops",
        "recomputed_bytes",
        "memory_if_known",
        "compute_ms",
        "busy_share",
        "device_type",
        "cpus_short",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where ops that compute again take enough of the device's time, unless memory has no room."""
    rows = signals.recomputed_ops
    if rows is None:
        return not_applicable("nothing tells of gradient checkpointing")
    share = rows.ms_per_step() / signals.compute_ms
    more = signals.recomputed_bytes
    memory = signals.memory_if_known
    peak = memory.peak_bytes if memory is not None else None
    capacity = memory.capacity_bytes if memory is not None else None
    evidence = [*_checkpointed(signals), *op_evidence(rows)]
    if more is not None:
        evidence.append(Evidence("results of all ops that compute again", more, "bytes"))
    if peak is not None:
        evidence.append(Evidence("peak of the memory in use, per device", peak, "bytes"))
    if capacity:
        evidence.append(Evidence("capacity of one device", capacity, "bytes"))
    if share < OPS_FROM_SHARE:
        return passed(evidence)
    known = capacity and peak is not None and more is not None
    fits = known and (peak or 0) + ROOM_FOR * (more or 0) < HBM_PRESSURE_FROM_SHARE * (capacity or 0)
    if known and not fits:
        return passed(evidence, reason=_too_full(peak or 0, more or 0, capacity or 0))
    title = f"Activations that are computed again take {format_share(share)} of the device's time"
    return failed(
        share * signals.busy_share,
        evidence,
        title=f"{title}, and memory has room to keep them"
        if fits
        else f"{title}; whether memory has room to keep them is unknown",
        price=replace(
            counterfactual(
                Change(device={part.COMPUTE: 1 - share}),
                Change(device={part.COMPUTE: 1 - SAVED_AT_LEAST * share}),
                ops=ms_of(rows),
            ),
            # Where the host waits for CPUs that such a device uses, it is faster without that work as well.
            in_all=share * signals.busy_share if short_of_cpus(signals) else 0.0,
        ),
        confidence="medium" if fits else "low",
    )


def _checkpointed(signals: Signals) -> list[Evidence]:
    """The line of the program that calls torch_xla's checkpointing, as samples of the training thread saw it."""
    seen: Counter[str] = Counter()
    for row in stacks_of(signals):
        at = next((at for at, frame in enumerate(row.frames) if _CALLED in frame), 0)
        line = last_users_line(row.frames[:at])
        if line and row.frames[at].startswith(_CALL):
            seen[line] += row.samples
    return [Evidence("calls checkpoint", source=line) for line, _ in seen.most_common(1)]


def _too_full(peak: int, more: int, capacity: int) -> str:
    own, beside, of = map(format_bytes, (peak, more, capacity))
    return f"memory has no room for twice the {beside} that are computed again: {own} of {of} are in use"
