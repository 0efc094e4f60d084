"""The device waits for communication between chips.

## What it detects

Time in which a device waits on collectives (all-reduce, reduce-scatter, all-to-all, ...) that no computing hides.
All-gathers of FSDPv2's parameters are the business of exposed-parameter-gather.

## Why it costs time

Communication that runs beside computing costs nothing; what the device must wait for is added to the step.

## Evidence

Each collective with its exposed and hidden time per step, its bytes and its source line.

## How to fix

Give the scheduler something to hide it behind: the latency-hiding scheduler flags, a larger batch per chip, fewer and
larger collectives, or another mesh.

Before:

    xs.Mesh(np.arange(8), (8, 1), ("fsdp", "model"))

After:

    xs.Mesh(np.arange(8), (4, 2), ("fsdp", "model"))

## Limits and false positives

A device that waits for a slower one waits in a collective: see straggler-host. The price takes all exposed time out,
which is the most that can be gained.

## References

- https://github.com/pytorch/xla/issues/6778
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.rules.transfers import exposed_share, transfer_evidence
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import format_share

HIDDEN_AT_LEAST = 0.5


@rule(
    about="waits for communication between chips",
    good="The device hardly waits for communication",
    bad="The device waits for communication",
)
def check(signals: Signals) -> Outcome:
    """Fail where exposed collectives other than parameter gathers take enough of the step."""
    rows = [row for row in signals.collectives if row not in signals.parameter_gathers]
    if not rows:
        return not_applicable(
            "no collective ran but gathers of parameters" if signals.collectives else "no collective ran"
        )
    share = exposed_share(rows, signals.collectives) * signals.collective_share
    evidence = transfer_evidence(rows)
    if share < FAILS_FROM_SHARE:
        return passed(evidence)
    of_all = share / signals.collective_share
    return failed(
        share,
        evidence,
        title=f"The device waits {format_share(share)} of each step for communication",
        price=counterfactual(
            Change(device={part.COLLECTIVE: 1 - of_all}),
            Change(device={part.COLLECTIVE: 1 - of_all * HIDDEN_AT_LEAST}),
        ),
    )
