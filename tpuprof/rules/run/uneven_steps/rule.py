"""Some steps take far longer than the others.

## What it detects

Steps in which the device idles far longer than in the others (by a quarter of the median step), where that adds at
least a tenth to the mean step. Compiles are left out: they have rules of their own.

## Why it costs time

Saving a checkpoint, evaluating, logging or collecting garbage in the training thread stops the device for that long,
and every other host with it.

## Evidence

The slow steps, how long each took, and what grew in them.

## How to fix

Do the work beside training: save checkpoints asynchronously, log from another thread, evaluate in a job of its own, and
collect garbage when nothing waits.

## Limits and false positives

The capture must be long enough to hold slow steps in their true proportion: with one in a hundred, a capture of eight
steps sees too many or none. The price assumes the proportion of the capture.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/spmd_distributed_checkpoint.html
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence, StepRow
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.thresholds import UNEVEN_FROM_SHARE, UNEVEN_MIN_STEPS
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import counted, format_ms, format_share

SHOWN = 8


@rule(
    about="evenness of the steps",
    good="Uneven steps cost little or nothing",
    bad="Some steps take far longer than the others",
)
def check(signals: Signals) -> Outcome:
    """Fail where the slow steps' excess over typical ones is enough of the time."""
    if len(signals.steps) < UNEVEN_MIN_STEPS:
        return not_applicable(
            f"the capture is too short to tell a rhythm: {counted(len(signals.steps), 'step')}"
        )
    even, slow = signals.even_rows
    if not slow:
        return passed()
    rows = signals.slowest_host_steps
    idle = signals.idle_by_step
    usual = sum(idle[row] for row in even) / len(even)
    share = sum(idle[row] - usual for row in slow) / sum(row.wall_ms for row in rows)
    evidence = [_evidence(signals, rows[row]) for row in slow[:SHOWN]]
    if share < UNEVEN_FROM_SHARE:
        return passed(evidence)
    takes = "takes" if len(slow) == 1 else "take"
    return failed(
        share,
        evidence,
        title=f"{len(slow)} of {counted(len(rows), 'step')} {takes} far longer than the others: {format_share(share)} "
        "of the time",
        price=counterfactual(Change(steps=frozenset(even))),
    )


def _evidence(signals: Signals, step: StepRow) -> Evidence:
    """A slow step with what grew in it, where it stands out enough to tell; else with its largest part."""
    outlier = next(
        (
            row
            for row in signals.report.steadiness.outliers
            if (row.step, row.host) == (step.index, step.host) and row.reasons
        ),
        None,
    )
    if outlier is not None:
        grew = ", ".join(f"{name} by {format_ms(ms)}" for name, ms in outlier.reasons.items())
        text = f"step {step.index} grew in {grew}"
    else:
        largest = max(step.breakdown_ms, key=lambda name: step.breakdown_ms[name], default="unknown")
        text = f"step {step.index}, mostly {largest}"
    return Evidence(
        text,
        step.wall_ms,
        "ms",
        host=step.host,
        step=step.index,
        start_ns=step.start_ns,
        duration_ms=step.wall_ms,
    )
