"""The device is busy all the time: there is nothing to fix on the host.

## What it detects

Runs whose device works at least nine tenths of the step and waits for neither copies nor communication.

## Why it costs time

It does not: this is how training should be. Faster steps need less device work or more chips.

## Evidence

Busy time as a share of the step, and the ops that take most of it.

## How to fix

Nothing on the host. See the rules on compute, or the ops by self time.

## Limits and false positives

Busy is not efficient: low-mxu-utilization says whether the busy time is well used.

## References

- https://jax-ml.github.io/scaling-book/roofline/
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import STABLE, Outcome, not_applicable, passed, rule
from tpuprof.rules.shared.ops import timed
from tpuprof.rules.thresholds import DEVICE_BOUND_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.units import format_share

SHOWN = 5


@rule(
    about="device busy all the time",
    good="The device is busy: nothing to fix on the host",
    bad="The device idles",
    status=STABLE,
    reads=("busy_share", "ops", "offload_share", "collective_share"),
)
def check(signals: Signals) -> Outcome:
    """Say so where the device is busy; it never fails."""
    working = signals.busy_share - signals.offload_share - signals.collective_share
    if working < DEVICE_BOUND_FROM_SHARE:
        return not_applicable(f"the device computes for {format_share(working)} of the step only")
    evidence = [Evidence("the device computes, share of the step", working, "share")]
    evidence += [timed(op, op.name) for op in signals.ops[:SHOWN]]
    return passed(
        evidence,
        title=f"The device computes for {format_share(working)} of the step: nothing to fix on the host",
    )
