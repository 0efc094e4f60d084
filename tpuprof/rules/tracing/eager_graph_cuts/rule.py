"""A step is cut into several graphs.

## What it detects

More than one graph handed to the device in a typical step: extra `torch_xla.sync()` or `mark_step`, values read in
the middle of a step, or ops without a lowering.

## Why it costs time

Each cut collects all live tensors, walks and hashes its graph and hands it over on its own; the compiler cannot fuse
or schedule across cuts, and every tensor that crosses one goes through device memory.

## Evidence

Graphs per step by torch_xla's counters, the time per step that the training thread spends cutting graphs, and the
lines that cut them.

## How to fix

Cut once per step, after optimizer.step(): keep values on the device and read them after the cut.

## Limits and false positives

Cutting after each micro batch of a long gradient accumulation keeps programs small and may be wanted. The price knows
the host's side of the cuts; what fusion across them gains on the device is not in it. Its upper end also counts what
samples of the thread's stack find in calls that cut, and no event does: entering the call, and leaving it. A device
that is this machine's CPU shares its CPUs with the host. Without the cuts between, the host no longer waits for the
device in them, and traces beside it, but both are slower there than one alone: the price begins at what the host's own
side of the cuts saves, and ends where side by side costs nothing. Of ten cuts, one per block, 34 to 48 ms was said of
steps of 170 ms, as all of the waits were taken to go; without them 16 and 33 ms were saved in two pairs of runs. Of
seven cuts in a GAN's step of 39 ms, 3 ms were saved in two pairs, where the same would have said 9 to 10.

## References

- https://docs.pytorch.org/xla/release/r2.9/learn/pytorch-on-xla-devices.html
- https://github.com/pytorch/xla/issues/3434
"""

from __future__ import annotations

from dataclasses import replace

from tpuprof import parts as part
from tpuprof.report.schema import Evidence
from tpuprof.report.sections import GraphCutRow
from tpuprof.rules.base import STABLE, Outcome, Price, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.pricing import SIDE_BY_SIDE
from tpuprof.rules.programs import JAX, TORCH_TPU
from tpuprof.rules.thresholds import FAILS_FROM_SHARE, GRAPH_CUTS_FROM
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change

CUT = "graph_cut"
# What the innermost line of a stack calls where the thread cuts a graph (torch_xla 2.9's `sync` and `mark_step`).
CUTTING_CALLS = ("_xla_step_marker(", "_xla_sync_multi(")
# What of a cut stays when cuts are joined: its ops are still walked and hashed.
WALK = "graph_walk"
# How much of an extra cut's host time stays where events do not tell the walk (ratio). A judgement.
LEFT_AT_MOST = 0.5

# Share of a step's graphs from which a line is named for them (ratio).
MOST_OF = 0.5

# Frameworks without a graph that is built lazily and cut, and what to say of them.
NOT_CUT = {
    JAX: "JAX has no lazily built graph to cut",
    TORCH_TPU: "TorchTPU runs a program per op, or per piece of deferred ops: see eager-dispatch and frequent-flushes",
}


@rule(
    status=STABLE,
    about="graph cuts in the step",
    good="Graph cuts in the step cost little or nothing",
    bad="A step is cut into several graphs",
    reads=(
        "step_ms",
        "steps",
        "fallbacks",
        "graphs_per_step",
        "framework",
        "event_ms",
        "eager_ops",
        "stacks_if_sampled",
        "cutting_lines",
        "device_type",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where the cuts beyond the first cost enough of a step."""
    if signals.framework in NOT_CUT:
        return not_applicable(NOT_CUT[signals.framework])
    graphs = signals.graphs_per_step
    evidence = [Evidence("graphs handed over in a step (median)", graphs, "graphs")]
    if graphs < GRAPH_CUTS_FROM:
        return passed(evidence)
    if signals.eager_ops is not None:
        return passed(evidence, reason="eager mode runs each op as a graph of its own: see eager-mode")
    spent = signals.event_ms.get(CUT, 0.0)
    evidence.append(Evidence("time per step in cutting graphs", spent, "ms"))
    # Each graph is also handed to the device, for which the device waits.
    handed = signals.steps.mean_parts().get(part.DISPATCH, 0.0)
    share = (spent + handed) * (1 - 1 / graphs) / signals.step_ms
    if share < FAILS_FROM_SHARE:
        return passed(
            evidence, reason=f"{graphs:g} graphs per step, but cutting them takes too little to matter"
        )
    if signals.fallbacks:
        return passed(evidence, reason="ops without a lowering cut the graph: see aten-fallback")
    around, outside = _in_calls(signals, spent)
    lines = signals.cutting_lines
    evidence += [
        Evidence(f"graphs cut by {row.call}", row.per_step, "per step", source=row.source) for row in lines
    ]
    return failed(
        share + around * (1 - 1 / graphs) / signals.step_ms,
        evidence,
        title=f"A step is cut into {graphs:g} graphs{_most_at(lines, graphs)}",
        price=_price(signals, graphs, outside),
    )


def _price(signals: Signals, graphs: float, outside: float) -> Price:
    """What one graph in place of so many saves: at least the host's own work, where both share the CPUs.

    On such a device the cut that is left may also wait for it as all of them did: for buffers that programs take over.
    """
    shares = signals.device_type == "CPU"
    most, least = _joined(0.0, graphs, outside), _joined(_left(signals), graphs, waits_stay=shares)
    return replace(counterfactual(most, least), note=SIDE_BY_SIDE if shares else "")


def _most_at(lines: list[GraphCutRow], graphs: float) -> str:
    """The line that cuts most of the step's graphs, for a title; empty where none does."""
    first = max(lines, key=lambda row: row.per_step, default=None)
    if first is None or first.per_step < MOST_OF * graphs:
        return ""
    return f", most of them by {first.call} at {first.source}"


def _joined(left: float, graphs: float, outside: float = 0.0, *, waits_stay: bool = False) -> Change:
    """One graph per step in place of so many, with that share of the other cuts' host time left.

    `outside` is the share of the tracing outside their events that belongs to cuts. With `waits_stay` the one cut that
    is left waits for the device as all of them did.
    """
    gone = outside * (1 - 1 / graphs)
    host = {part.DISPATCH: 1 / graphs, part.TRACING: 1 - gone}
    return Change(join_cuts=left, waits_stay=waits_stay, host=host)


def _in_calls(signals: Signals, spent: float) -> tuple[float, float]:
    """What samples find in calls that cut beyond the cuts' events (`spent`).

    In ms per step, and as a share of all tracing beyond those events. Both are 0 without samples.
    """
    rows = [row for row in signals.stacks_if_sampled if row.part == part.TRACING]
    cutting = [row for row in rows if any(call in row.call for call in CUTTING_CALLS)]
    tracing, in_calls = (
        sum(row.exposed_ms_per_step + row.hidden_ms_per_step for row in each) for each in (rows, cutting)
    )
    around = max(in_calls - spent, 0.0)
    return around, around / (tracing - spent) if around else 0.0


def _left(signals: Signals) -> float:
    walk = signals.event_ms.get(WALK)
    return min(walk / signals.event_ms[CUT], 1.0) if walk else LEFT_AT_MOST
