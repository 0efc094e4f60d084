"""scan traces its body again in every step.

## What it detects

`scan` or `scan_layers` that run AOTAutograd over their body in every step, because the body is not marked as
pure. A capture by tpuprof times how long scan looks for its traced body: tracing it takes far longer than finding it.

## Why it costs time

Tracing one layer through AOTAutograd takes tens to hundreds of milliseconds of Python, many times what a step of
plain tracing takes. With a pure body it is done once and its result kept.

## Evidence

How often per step the body is traced, what loops take on the device, and the time per step in scan's own tracing.

## How to fix

Tell scan that the body is pure, if it is (`scan_layers(layers, x, is_layer_pure=True)`, or `is_fn_pure=True` of
`scan`): no side effects, and no state but its arguments. scan keeps what it traced by the function object: pass the
same function in every step. A lambda or an inner function made in the step never hits, though is_fn_pure is set; so
does a partition_fn made again.

## Limits and false positives

A body with dropout or other random numbers is not pure: caching it repeats the same numbers. A capture not made by
tpuprof shows that scan ran, and not whether it traced its body before: where the step has enough tracing for that, the
finding is of low confidence, and its price begins at nothing.

## References

- https://github.com/pytorch/xla/issues/8632
- https://docs.pytorch.org/xla/release/r2.9/features/scan.html
"""

from __future__ import annotations

import re

from tpuprof import parts as part
from tpuprof.model.host.tracing import SCAN_TRACED_FROM_PS
from tpuprof.report.labels import source_of
from tpuprof.report.schema import Evidence
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.base import STABLE, Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.thresholds import SCAN_RETRACE_FROM_SHARE, SCAN_RETRACES_FROM
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import PS_PER_MS, counted, times

RUN, CALL = "scan_run", "scan_trace"
# How much of all tracing is left once scan's cache is on (ratio), where the capture does not time scan's own part.
LEFT_WHERE_UNTIMED = 0.3
# A frame of scan itself: `scan_layers (/env/torch_xla/experimental/scan_layers.py:121)`.
_SCAN = re.compile(r"torch_xla/experimental/scan(_layers)?\.py:")


@rule(
    status=STABLE,
    about="traces of scan bodies",
    good="Traces of scan bodies cost little or nothing",
    bad="scan traces its body again in every step",
    reads=(
        "step_ms",
        "typical_tracing_ms",
        "typical_ms",
        "loops_if_seen",
        "scan_retraces",
        "event_ms",
        "event_count",
        "stacks_if_sampled",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where the body is traced in at least every other step and that is worth naming."""
    traced = signals.scan_retraces
    called = signals.event_count.get(CALL, 0.0)
    ran = signals.event_count.get(RUN, 0.0)
    if not ran and not called:
        return not_applicable("no scan ran in the captured steps")
    source = _called_at(signals.stacks_if_sampled)
    evidence = [
        Evidence("traces of a scan's body", traced, "per step", source=source)
        if called
        else Evidence("runs of a scan", ran, "per step", source=source)
    ]
    evidence += [
        Evidence(
            f"{row.direction or 'loop'} of {counted(row.trip_count, 'iteration')} on the device, {row.name}",
            row.total_ms_per_step,
            "ms per step",
            source=row.source,
        )
        for row in signals.loops_if_seen
        if row.kind == "while" and row.trip_count
    ]
    exposed = signals.typical_tracing_ms / signals.typical_ms
    if not called:
        return _untimed(ran, exposed, signals.typical_tracing_ms, evidence)
    if traced < SCAN_RETRACES_FROM:
        return passed(evidence)
    spent = signals.event_ms[CALL]
    evidence.append(Evidence("time per step in scan's own tracing", spent, "ms"))
    share = min(spent / signals.step_ms, exposed)
    if share < SCAN_RETRACE_FROM_SHARE:
        return passed(evidence, reason="retracing is hidden behind device work, or too short to matter")
    price = counterfactual(Change(named_events={CALL: 0.0}))
    return failed(share, evidence, title=_title(traced), price=price, confidence="high")


def _untimed(ran: float, exposed: float, tracing_ms: float, evidence: list[Evidence]) -> Outcome:
    """Where the capture does not time scan's own part: a step may have enough tracing for all of its scans, or not."""
    if tracing_ms < ran * SCAN_TRACED_FROM_PS / PS_PER_MS or exposed < SCAN_RETRACE_FROM_SHARE:
        return passed(evidence, reason="a step traces for less than scan takes to trace its body")
    return failed(
        exposed,
        evidence,
        title=f"scan runs {times(ran)} per step, and may trace its body again each time",
        price=counterfactual(Change(host={part.TRACING: LEFT_WHERE_UNTIMED}), Change()),
        reason="only a capture by tpuprof times scan's own tracing: whether it finds its traced body is unknown",
        confidence="low",
    )


def _called_at(stacks: list[HostStackRow]) -> str:
    """The line that calls scan for most of the sampled time; empty where no sample is inside of one.

    The compiled loop's own line is torch's: the ops of its body were traced from there.
    """
    spent: dict[str, float] = {}
    for row in stacks:
        inside = next((index for index, frame in enumerate(row.frames) if _SCAN.search(frame)), 0)
        if inside:
            source = source_of(row.frames[inside - 1])
            spent[source] = spent.get(source, 0.0) + row.exposed_ms_per_step + row.hidden_ms_per_step
    return max(spent, key=spent.__getitem__, default="")


def _title(traced: float) -> str:
    return f"scan traces its body again {times(traced)} in every step"
