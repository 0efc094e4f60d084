"""Some steps take far longer than the others.

## What it detects

Steps above 1.25 times the median that add at least a tenth to the mean step, compiles left out.

## Why it costs time

Saving a checkpoint, evaluating, logging or collecting garbage in the training thread stops the device for that long,
and every other host with it.

## Evidence

The slow steps, how long each took, and what they spent the time on.

## How to fix

Do the work beside training: save checkpoints asynchronously, log from another thread, evaluate in a job of its own, and
collect garbage when nothing waits.

Before:

    if step % 100 == 0:
        xm.save(model.state_dict(), path)

After:

    if step % 100 == 0:
        manager.save_async(step, model.state_dict())  # torch_xla.experimental.distributed_checkpoint

## Limits and false positives

The capture must be long enough to hold slow steps in their true proportion: with one in a hundred, a capture of eight
steps sees too many or none. The price assumes the proportion of the capture.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/spmd_distributed_checkpoint.html
"""

from __future__ import annotations

from tpuprof.model import attribution as part
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.thresholds import UNEVEN_FROM_SHARE, UNEVEN_MIN_STEPS
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change

SHOWN = 8


@rule(good="Steps are even", bad="Some steps take far longer than the others")
def check(signals: Signals) -> Outcome:
    """Fail where the slow steps' excess over typical ones is enough of the time."""
    if len(signals.steps) < UNEVEN_MIN_STEPS:
        return not_applicable(f"{len(signals.steps)} steps tell nothing of a rhythm")
    even, slow = signals.even_rows
    if not slow:
        return passed()
    step_of = signals.slowest_host_steps
    usual = sum(
        step_of[row].wall_ms - step_of[row].breakdown_ms.get(part.COMPILE, 0.0) for row in even
    ) / len(even)
    excess = sum(
        step_of[row].wall_ms - step_of[row].breakdown_ms.get(part.COMPILE, 0.0) - usual for row in slow
    )
    share = excess / sum(step.wall_ms for step in step_of)
    evidence = [
        Evidence(
            f"step {step_of[row].index}, mostly {max(step_of[row].breakdown_ms.items(), key=lambda item: item[1])[0]}",
            step_of[row].wall_ms,
            "ms",
            host=step_of[row].host,
            step=step_of[row].index,
            start_ns=step_of[row].start_ns,
            duration_ms=step_of[row].wall_ms,
        )
        for row in slow[:SHOWN]
    ]
    if share < UNEVEN_FROM_SHARE:
        return passed(evidence)
    return failed(
        share,
        evidence,
        title=f"{len(slow)} of {len(step_of)} steps take far longer than the others",
        price=counterfactual(Change(steps=frozenset(even))),
    )
