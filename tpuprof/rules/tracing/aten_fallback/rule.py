"""Ops run on the host because XLA has no lowering for them.

## What it detects

`aten::` counters that rise in the captured steps: ops torch_xla cannot lower, which it runs on the CPU instead.

## Why it costs time

Each such op cuts the graph, waits for the device, copies its inputs to the host, computes there and copies the result
back; nothing overlaps with it.

## Evidence

The ops, the lines that call them, and how often per step they fell back. What such an op takes in is computed by a
program of its own, and what the backward pass needs of it once more by the step's: how long the device works twice is
known where both programs show the same Python stacks.

## How to fix

Replace the op by ones that XLA lowers, or move it out of the step. `torch_xla.debug.metrics.counter_names` lists ops
that fell back, with the prefix aten.

[again] Where the op must stay, as a loss that XLA does not know (`ctc_loss`), call `torch_xla.sync()` as soon as what
it takes in is built, such as right behind the model's forward pass: the device then computes that once.

[selecting] For `nonzero` and `masked_select` boolean-mask comes first: both findings say that they share one saving.

## Limits and false positives

The price leaves out the waits, transfers and cuts of the step; what the op's replacement costs on the device is not in
it, so its confidence is medium at most. A step of 14.4 ms was priced at 2.5 ms for Cholesky ops. With `inv` and
`slogdet`, which XLA lowers, in their place it took 4.9 ms more (the CPU device); with nothing in their place 7 to 8 ms
less, since nothing was traced for them either. Where the device works twice, the price is at least that work and the
op's own time, and at most that work and all of the device's idle time. With the op left as it is and a graph cut right
behind the forward pass, a speech model with a CTC loss took 58 to 64 ms per step in place of 71 to 74. Where the
program also reads values in each step, host and device go on taking turns at those reads without the op: the price
begins at the op's own time. `aten::_local_scalar_dense` is a read of a value and counted by device-to-host-sync.

## References

- https://docs.pytorch.org/xla/release/r2.9/learn/troubleshoot.html
- https://github.com/pytorch/xla/issues/2422
"""

from __future__ import annotations

from dataclasses import replace

from tpuprof.report.labels import fallback_text
from tpuprof.report.schema import Evidence
from tpuprof.report.sections import FallbackRow
from tpuprof.rules.base import STABLE, Outcome, failed, passed, rule
from tpuprof.rules.pricing import REPLACEMENT_COSTS
from tpuprof.rules.shared.fallbacks import (
    SELECTING,
    calls_evidence,
    price_with_again,
    price_without,
    reads_that_stay,
    usual_fallbacks,
    waits_that_stay,
)
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.units import format_ms, times

# Ops whose lines the title names (ops): with more it is no title. The evidence has all of them.
LINES_TOLD = 2


@rule(
    status=STABLE,
    about="ops that fall back to the host",
    good="Ops that fall back to the host cost little or nothing",
    bad="Ops fall back to the host",
    torch_only=True,
    reads=("steps", "busy_share", "fallbacks", "again_for_ops_ms", "python_reads_if_seen", "runtime_wait_ms"),
)
def check(signals: Signals) -> Outcome:
    """Fail where ops fall back in the usual step and the replay without them is worth naming."""
    found = usual_fallbacks(signals)
    evidence = calls_evidence(found)
    if not found:
        return passed()
    selecting = {"selecting"} if any(row.op in SELECTING for row in found) else set()
    if signals.again_for_ops_ms and signals.again_for_ops_ms >= FAILS_FROM_SHARE * signals.step_ms:
        return replace(_again(signals, found, evidence), cases=frozenset({"again"} | selecting))
    share = 1 - signals.busy_share
    if share < FAILS_FROM_SHARE:
        return passed(evidence, reason="ops fall back, but the device hardly idles")
    stays = [*reads_that_stay(signals), *waits_that_stay(signals)]
    return failed(
        share,
        [*evidence, *stays],
        title=_title(found),
        price=replace(price_without(stays), note=REPLACEMENT_COSTS),
        cases=frozenset(selecting),
    )


def _again(signals: Signals, found: list[FallbackRow], evidence: list[Evidence]) -> Outcome:
    """Where what the ops take in is computed twice: that is the device's time, however busy it is."""
    twice = signals.again_for_ops_ms
    work = "device work for what the ops take in, which the step does again"
    return failed(
        min(1 - signals.busy_share + twice / signals.step_ms, 1.0),
        [*evidence, Evidence(work, twice, "ms per step"), *reads_that_stay(signals)],
        title=f"{_title(found)}, and the step computes again what they take in: {format_ms(twice)} per step",
        price=replace(price_with_again(signals), note=REPLACEMENT_COSTS),
    )


def _title(rows: list[FallbackRow]) -> str:
    if len(rows) == 1:
        return f"{fallback_text(rows[0])} falls back to the host {times(rows[0].per_step or 0.0)} per step"
    total = sum(row.per_step or 0.0 for row in rows)
    if len(rows) <= LINES_TOLD:
        return (
            f"{' and '.join(map(fallback_text, rows))} fall back to the host, {times(total)} per step in all"
        )
    return f"{', '.join(row.op for row in rows)} fall back to the host, {times(total)} per step in all"
