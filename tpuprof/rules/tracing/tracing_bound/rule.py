"""The device waits while the host builds the next graph.

## What it detects

Steps in which the device idles for at least a tenth of the time while the training thread traces: Python, the
dispatcher, the walk over the graph and its hash.

## Why it costs time

PyTorch/XLA builds the graph of every step again. While that takes less time than the device needs for the step before,
it is hidden; what is longer leaves the device idle.

## Evidence

The share of all captured steps' time in which the device waits for tracing; tracing in a typical step (one up to 1.25
times the median), of it what runs behind device work and costs nothing, and the device's idle time; what tracing is
made of, by phase, by annotation and by line of the program, and the mean step without any of it.

## How to fix

Trace less per step, beginning with the lines in the evidence. Where a Python loop makes ops row by row, head by head
or parameter by parameter, write one op over all of them (a batched matmul, `torch.bmm`); where each turn
needs the result of the last, use `scan`. Wrap pure layers with `torch_xla.experimental.assume_pure.assume_pure` (no
random numbers, no Pallas kernels, no `scan` and no `nn.GRU` inside: torch_xla makes that one by `scan`, and the process
aborts), fold repeated layers with scan_layers(is_layer_pure=True), move Python that builds no graph out of the step, or
give the device more work per step (a larger batch).

## Limits and false positives

What counts as tracing is shown by events, by ops that annotations counted, or by samples of the thread's stack; where a
trace has none of these, the rule is unavailable. The price assumes that between half and nine tenths of tracing can go,
which depends on the fix.

## References

- https://github.com/pytorch/xla/issues/5280
- https://github.com/pytorch/xla/pull/8962
- https://github.com/AI-Hypercomputer/torchprime/issues/149
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.report.host_lines import running
from tpuprof.report.labels import phase_title
from tpuprof.report.schema import Evidence
from tpuprof.report.tracing_lines import lines_that_trace, mostly_at
from tpuprof.rules.base import STABLE, Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.shared.turns import takes_turns
from tpuprof.rules.shared.uncut import SEE, uncut
from tpuprof.rules.thresholds import FAILS_FROM_SHARE, TRACING_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import format_share

# How much of tracing is left after the fix (ratio): assume_pure and a cached scan leave the argument handling and the
# walk over a smaller graph; a larger batch leaves it all but hides more.
LEFT_AT_LEAST = 0.1
LEFT_AT_MOST = 0.5
# Phases, annotations and lines of tracing listed as evidence (rows of each).
SHOWN = 3


@rule(
    status=STABLE,
    about="waits for tracing",
    good="The device hardly waits for tracing",
    bad="The device waits while the host traces",
    broad=True,
    reads=(
        "step_ms",
        "usual_step_ms",
        "steps",
        "typical_steps",
        "typical_tracing_ms",
        "typical_device_idle_ms",
        "tracing_hidden_ms",
        "bound",
        "framework",
        "tracing",
        "uncut_steps",
        "cutting_reads",
        "compile_share",
        "stacks_if_sampled",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where exposed tracing reaches its threshold in typical steps and no read forces the turns."""
    if signals.framework == "jax":
        return not_applicable("JAX traces a function once, not in every step")
    if uncut(signals):
        return passed(reason=SEE)
    tracing, usual = signals.typical_tracing_ms, signals.usual_step_ms
    in_typical = tracing * len(signals.typical_steps) / len(signals.steps) / usual
    evidence = [
        Evidence("tracing a typical step that leaves the device idle", tracing, "ms"),
        Evidence("tracing per step hidden behind device work", signals.tracing_hidden_ms, "ms"),
        Evidence("device idle in a typical step", signals.typical_device_idle_ms, "ms"),
        *_made_of(signals),
        *_lines(signals),
    ]
    if in_typical < TRACING_FROM_SHARE:
        return passed(evidence)
    turns = takes_turns(signals)
    if turns is not None:
        maker, why = turns
        return passed(
            evidence,
            title=f"Tracing costs time only because {maker} makes host and device take turns",
            reason=why,
        )
    # Like the verdict's share, and the replay's, this is of all steps: slow ones trace as well.
    share = min(signals.steps.mean_parts().get(part.TRACING, 0.0) / usual, 1.0)
    of_what = "each step" if usual > (1 - FAILS_FROM_SHARE) * signals.step_ms else "the usual step"
    return failed(
        share,
        evidence,
        title=f"The device waits {format_share(share)} of {of_what} while the host traces",
        price=counterfactual(
            Change(host={part.TRACING: LEFT_AT_LEAST}),
            Change(host={part.TRACING: LEFT_AT_MOST}),
        ),
    )


def _lines(signals: Signals) -> list[Evidence]:
    """The program's lines with most exposed tracing, of captures with samples.

    A function that the verdict names stands first: of the training loop, one line alone may well have more.
    """
    stacks = signals.stacks_if_sampled
    functions = [
        Evidence(
            f"tracing in {each.function} that leaves the device idle",
            each.ms,
            "ms per step",
            source=each.source,
        )
        for each in mostly_at(stacks)
        if each.function
    ]
    return functions + [
        Evidence(f"tracing that leaves the device idle{running(call)}", exposed, "ms per step", source=source)
        for source, call, exposed, _ in lines_that_trace(stacks)[:SHOWN]
        if source and exposed
    ]


def _made_of(signals: Signals) -> list[Evidence]:
    """The phases and annotations with most exposed tracing, and the mean step if tracing cost nothing."""
    tracing = signals.tracing
    rows = [(phase_title(row.name), row) for row in tracing.phases[:SHOWN]]
    rows += [(row.name, row) for row in tracing.annotations[:SHOWN]]
    facts = [
        Evidence(f"tracing in {name} that leaves the device idle", row.exposed_ms_per_step, "ms per step")
        for name, row in rows
        if row.exposed_ms_per_step
    ]
    if tracing.step_ms_if_free is not None:
        facts.append(Evidence("mean step with all exposed tracing taken out", tracing.step_ms_if_free, "ms"))
    return facts
