"""Nothing in the trace says where a step begins.

## What it detects

Traces without step markers, whose steps had to be inferred and may not be the program's.

## Why it costs time

It costs none. But every figure per step is as good as the steps are: a step cut in two halves every saving.

## Evidence

Where the steps come from, and how sure that is.

## How to fix

Mark steps in the training loop with `tpuprof.step(i)`: then they are the program's own.

## How to fix in TorchTPU

Mark steps in the training loop with `tpuprof.step(i)`, or with `prof.step()` of `torch.profiler` and its schedule.

## How to fix in JAX

Mark steps in the training loop: `tpuprof.step(i)`, or `jax.profiler.StepTraceAnnotation("train", step_num=i)` around
each.

## How to fix in PyTorch on GPUs

Call `prof.step()` of `torch.profiler` at the end of each iteration, with its schedule: the trace then has
`ProfilerStep#N`. Record more than one step.

## Limits and false positives

With one graph per step, steps inferred from graph cuts or from the device's programs are right; they pass. `tpuprof
capture` also sees the optimizer's steps, which profiles of other tools do not hold: it may find what they lack.

## References

- https://github.com/openxla/xprof/issues/578
- https://github.com/pytorch/xla/issues/7693
"""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.rules.base import STABLE, Outcome, failed, passed, rule
from tpuprof.signals import Signals
from tpuprof.units import counted


@rule(
    about="source of the steps",
    good="Steps are known",
    bad="Nothing in the trace says where a step begins",
    status=STABLE,
    reads=("step_source",),
)
def check(signals: Signals) -> Outcome:
    """Fail where steps are missing or little sure; no step time is at stake."""
    steps = signals.step_source
    source = steps.method if steps.method.startswith("inferred") else f"from {steps.method}"
    evidence = [Evidence(f"{counted(steps.count, 'step')}, {source}, {steps.confidence} confidence")]
    if steps.count and steps.confidence != "low":
        return passed(evidence, reason=steps.note)
    return failed(0.0, evidence, reason="no step time is at stake, only what is known of it")
