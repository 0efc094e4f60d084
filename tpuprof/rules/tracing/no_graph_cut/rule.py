"""Nothing cuts the graph.

## What it detects

Captured steps that an optimizer ended, while no `torch_xla.sync()`, `mark_step()` or loader of torch_xla cut the graph.
Either reads of values (`loss.item()`) ran graphs, and each was compiled, or no graph ran at all. Without an optimizer:
reads that alone run graphs, each of which compiled and has more ops than the one before.

## Why it costs time

torch_xla only notes what ops would do until the graph is cut. A read runs what leads to the value, and nothing else:
the updated weights stay notes. The next step's graph then holds the step before it as well, the one after that both,
and each of these graphs is another one, which compiles. Without any read all steps become one graph, which grows until
something asks for a value.

## Evidence

The captured steps, who handed graphs over in them, and what compiling takes.

## How to fix

Call `torch_xla.sync()` at the end of each step, after `optimizer.step()`, and read values after it. `with
torch_xla.step():` around the step does the same, and so does a loader of torch_xla
(`pl.MpDeviceLoader(loader, device)`), which cuts the graph at each batch. `xm.optimizer_step(optimizer)` cuts only with
`barrier=True`, or where such a loader is used.

## Limits and false positives

A program that cuts once in more steps than were captured looks the same. A cut by a library that tpuprof does not know
counts as a cut. The price is the compiling alone: that the device computes the earlier steps again is not in it. It
supposes that steps build the same graph once it is cut. Without an optimizer that is of medium confidence: where a text
grows by a word in each step, its graphs go on to differ, unless all steps work on buffers of the whole length.

## References

- https://docs.pytorch.org/xla/release/r2.9/learn/pytorch-on-xla-devices.html
- https://github.com/pytorch/xla/issues/2327
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.model.steps.table import StepSource
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.shared.uncut import uncut
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import counted, format_share


@rule(
    about="a graph that nothing cuts",
    good="Something cuts the graph in each step",
    bad="Nothing cuts the graph",
    reads=("framework", "uncut_steps", "cutting_reads", "compile_share", "step_source"),
)
def check(signals: Signals) -> Outcome:
    """Fail where weights were updated, nothing cut the graph, and the graphs that reads ran compiled, or none ran."""
    if signals.framework != "torch_xla":
        return not_applicable("only torch_xla builds a graph until something cuts it")
    steps = signals.uncut_steps
    if not steps:
        return passed()
    evidence = [Evidence("steps without a cut", steps, "steps")]
    reads = signals.cutting_reads
    if not reads:
        # No graph ran: the device had none of the steps to work on, from their begin to their end.
        return failed(
            1.0,
            evidence,
            title=f"Nothing cuts the graph: none ran in {counted(steps, 'captured step')}, "
            "and the next read of a value runs all of them as one",
            reason="no graph ran, so what a step takes the device is unknown",
            confidence="high",
        )
    evidence += [
        Evidence(f"{row.call}: graphs run per step", row.per_step, "graphs", source=row.source)
        for row in reads
    ]
    share = signals.compile_share
    if not uncut(signals):
        return passed(evidence, reason="only reads run graphs, but these compile too little to matter")
    gone = Change(host={part.COMPILE: 0.0})
    place = f" at {reads[0].source}" if reads[0].source else ""
    return failed(
        share,
        evidence,
        title=f"Nothing cuts the graph: {reads[0].call}{place} runs what leads to its value, with all steps before it, "
        f"and compiling that takes {format_share(share)} of the time",
        price=counterfactual(gone, gone),
        # Without an optimizer it may be a text that grows by a word each time: with cuts its graphs differ as well.
        confidence="medium" if signals.step_source.method == StepSource.READS.value else "high",
    )
