"""torch.compile cuts a step into several functions.

## What it detects

TorchTPU steps that call several different functions made by torch.compile, where the Python between them takes at
least a tenth of the step.

## Why it costs time

At a graph break dynamo ends one function and begins another. In between Python runs, ops are called one by one, and
the compiler cannot fuse over the break.

## Evidence

Different compiled functions per step, and the time from the first to the last of them that is in none.

## How to fix in TorchTPU

Compile with `torch.compile(model, fullgraph=True)`: it raises an error at the first break and names its line.
`TORCH_LOGS=graph_breaks` prints each with its reason. Usual reasons are a branch on a tensor's value, `.item()`,
`print`, and calls that dynamo does not know. `torch.where` replaces a branch.

## Limits and false positives

A program that compiles several modules on purpose (a model and its loss, a generator and a discriminator) calls
several functions without a break: the trace does not tell the two apart, so the confidence is low.

## References

- https://docs.pytorch.org/docs/stable/torch.compiler.html
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed, not_applicable, passed, rule
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.units import PS_PER_MS, format_share

# Different compiled functions of a step from which a break is likely (functions).
BREAKS_FROM = 2


@rule(
    about="graph breaks of torch.compile",
    good="Graph breaks cost little or nothing",
    bad="torch.compile cuts the step into several functions",
    of_one_host=True,
)
def check(signals: Signals) -> Outcome:
    """Fail where several compiled functions run in a step and what is between them takes enough of it."""
    found = signals.eager_dispatch
    if found is None or not found.compiled_regions:
        return not_applicable("no function of torch.compile ran")
    between = found.between_ps / PS_PER_MS
    evidence = [
        Evidence("different functions of torch.compile called", found.compiled_regions, "per step"),
        Evidence("time between the first and the last of them", between, "ms per step"),
    ]
    share = between / signals.step_ms
    if found.compiled_regions < BREAKS_FROM or share < FAILS_FROM_SHARE:
        return passed(evidence)
    return failed(
        share,
        evidence,
        title=f"torch.compile made {found.compiled_regions:,.0f} functions of the step: {format_share(share)} of it "
        "is between them (graph breaks, or functions compiled apart)",
        reason="it cannot be priced: what one function would take is unknown",
        confidence="low",
    )
