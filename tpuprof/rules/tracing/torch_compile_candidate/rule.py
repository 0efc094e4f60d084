"""The same graph is traced again and again.

## What it detects

Runs that are tracing-bound by far while every step hands over the same compiled graph: nothing in the step changes, so
tracing it again gains nothing.

## Why it costs time

torch.compile(backend="openxla") captures the graph once with dynamo; later steps check guards and run the compiled
graph without tracing op by op.

## Evidence

Exposed tracing of a typical step, and that no captured step compiled.

## How to fix

For inference, compile the forward pass with the openxla backend. Training through dynamo runs three graphs per step
(forward, backward, optimizer), which XLA can no longer fuse or schedule as one, and the optimizer's is still traced:
measure, or use assume_pure. `torch_xla.compile` is something else: it still traces op by op in each call, checks that
a function is one graph, and names it.

## Limits and false positives

dynamo breaks the graph at data-dependent Python, and SPMD shardings inside the model are not always kept. Advice
only: it never fails, since tracing-bound prices the same time.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/dynamo.html
"""

from __future__ import annotations

from tpuprof.model.host.event_times import COMPILED_REGION
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, not_applicable, passed, rule
from tpuprof.rules.thresholds import TORCH_COMPILE_FROM_SHARE
from tpuprof.signals import Signals


@rule(
    about="use of torch.compile",
    good="torch.compile has nothing to gain here",
    bad="torch.compile may remove tracing",
    reads=("typical_tracing_ms", "typical_ms", "step_compiles", "framework", "event_count"),
)
def check(signals: Signals) -> Outcome:
    """Say whether torch.compile is worth a try; it is advice, so it never fails."""
    if signals.framework != "torch_xla":
        return not_applicable("only PyTorch/XLA traces each step")
    if signals.event_count.get(COMPILED_REGION):
        return not_applicable("the step calls functions that torch.compile made")
    share = signals.typical_tracing_ms / signals.typical_ms
    evidence = [Evidence("exposed tracing, share of a typical step", share, "share")]
    if share < TORCH_COMPILE_FROM_SHARE or signals.step_compiles:
        return passed(evidence)
    return passed(
        evidence, title="torch.compile(backend='openxla') or assume_pure may remove most tracing: worth a try"
    )
