"""The optimizer updates each parameter with ops of its own.

## What it detects

TorchTPU steps in which `optimizer.step()` takes at least a tenth of the time and calls at least thirty ops, most of
them for a single parameter.

## Why it costs time

Each op on each parameter is a dispatch of its own, and a program of its own. A model has hundreds of parameters, and
Adam needs about ten ops for each.

## Evidence

Ops per step inside optimizer calls, how many of them update many parameters at once, and the time of the calls.

## How to fix in TorchTPU

Update all parameters in one call: leave `foreach=False` out, or pass `foreach=True`; where the optimizer has it, pass
`fused=True`. Or put the whole step in one program with `torch.tpu.optimizers.SingleTraceTrainer`. On a device none of
these was tried.

## Limits and false positives

An optimizer that is written by hand, with a loop over parameters and without `torch.optim`, leaves no event and is
not seen.

## References

- https://docs.pytorch.org/docs/stable/optim.html
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, not_applicable, passed, rule
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.units import PS_PER_MS, format_share

# Ops of one optimizer call from which it is a loop (ops): AdamW over six parameters calls 23 with foreach and 60
# without (counted, torch 2.13), and more parameters add ops only without.
LOOP_FROM_OPS = 30
# Share of those ops that update many parameters, from which it is none: foreach has 9 of 23 there, the loop has none.
MANY_FROM_SHARE = 0.2


@rule(
    about="the optimizer's loop over parameters",
    good="The optimizer updates many parameters at once, or takes little of the step",
    bad="The optimizer updates parameters one by one",
    of_one_host=True,
)
def check(signals: Signals) -> Outcome:
    """Fail where optimizer calls take enough of the step and call ops parameter by parameter."""
    found = signals.eager_dispatch
    if found is None or found.optimizer_ps is None:
        return not_applicable("lazy and traced frameworks make one program of the update")
    took = found.optimizer_ps / PS_PER_MS
    evidence = [
        Evidence("ops in optimizer calls", found.optimizer_ops, "per step"),
        Evidence("of them, ops that update many parameters", found.optimizer_many, "per step"),
        Evidence("time of optimizer calls", took, "ms per step"),
    ]
    share = took / signals.step_ms
    if share < FAILS_FROM_SHARE:
        return passed(evidence)
    if found.optimizer_ops < LOOP_FROM_OPS or found.optimizer_many >= MANY_FROM_SHARE * found.optimizer_ops:
        return passed(evidence, reason="the optimizer calls few ops, or many parameters share one")
    return failed(
        share,
        evidence,
        title=f"The optimizer calls {found.optimizer_ops:,.0f} ops per step, parameter by parameter: "
        f"{format_share(share)} of the step",
        reason="it cannot be priced: what one call for all parameters takes was not measured on a device",
        confidence="medium",
    )
