"""Memory in use grows from step to step.

## What it detects

Devices on which the runtime's allocator holds more at the end of nearly each step, so that memory would be full within
ten thousand steps.

## Why it costs time

It costs none until memory is full: then training ends with RESOURCE_EXHAUSTED, hours after its start.

## Evidence

Memory in use after the first and the last captured step of each device, growth per step, and the steps until it is
full.

## How to fix

Keep no tensors of past steps: `losses.append(loss)` holds each step's loss on the device, and where it was not computed
yet its whole graph. Append numbers (`loss.item()`, rarely) or `loss.detach()` after the graph cut, and bound what is
kept.

## How to fix in JAX

Keep no arrays of past steps: `losses.append(loss)` holds each of them on the device. Move them to the host rarely
(`jax.device_get`), and bound what is kept.

## Limits and false positives

A cache that fills once (compiled programs, prefetched batches) grows too, and stops. A short capture cannot tell. The
allocator's events are in profiles of TPUs only.

## References

- https://github.com/pytorch/xla/issues/3532
- https://github.com/pytorch/xla/issues/6948
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.allocator import Allocated
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, passed, rule
from tpuprof.rules.thresholds import GROWS_IN_STEPS_SHARE, GROWTH_MIN_STEPS, MEMORY_FULL_WITHIN_STEPS
from tpuprof.signals import Signals, Unavailable
from tpuprof.units import format_bytes


@rule(
    about="memory in use from step to step",
    good="Memory in use does not grow from step to step, or lasts",
    bad="Memory in use grows from step to step",
    of_one_host=True,
    reads=("allocated",),
)
def check(signals: Signals) -> Outcome:
    """Fail where a device's memory grows in nearly each step and would soon be full."""
    rows = [(host, each) for host, each in signals.allocated if len(each.at_steps) >= GROWTH_MIN_STEPS]
    if not rows:
        raise Unavailable(
            f"fewer than {GROWTH_MIN_STEPS} captured steps have events of the runtime's allocator"
        )
    host, worst = min(rows, key=lambda row: _steps_left(row[1]))
    growth, left = _growth(worst), _steps_left(worst)
    evidence = [
        Evidence(
            f"device {worst.device} after the first captured step", worst.at_steps[0], "bytes", host=host
        ),
        Evidence(
            f"device {worst.device} after the last captured step", worst.at_steps[-1], "bytes", host=host
        ),
    ]
    if left > MEMORY_FULL_WITHIN_STEPS:
        return passed(evidence)
    evidence.append(Evidence("steps until memory is full at this pace", left, "steps", host=host))
    return failed(
        0.0,
        evidence,
        title=f"Memory grows by {format_bytes(int(growth))} per step, which fills device {worst.device}",
        reason="no step time is at stake until memory is full",
    )


def _growth(each: Allocated) -> float:
    """Bytes per step; 0 where memory rises in too few steps to call it growth."""
    change = np.diff(each.at_steps)
    grows = (change > 0).mean() >= GROWS_IN_STEPS_SHARE
    return max(float(change.mean()), 0.0) if grows else 0.0


def _steps_left(each: Allocated) -> float:
    """Steps until what is free at least is used up; without end where nothing grows."""
    growth = _growth(each)
    return max(each.least_free, 0) / growth if growth else float("inf")
