"""The same layer stands many times in the program.

## What it detects

Layers that repeat in the compiled program without a loop: the Python loop over them was unrolled into the graph.

## Why it costs time

Each copy is traced in every step and compiled on its own. One layer in a scan is traced once, and the program stays
as small as one layer, so that it also compiles faster.

## Evidence

How many copies of which block the program holds, and the exposed tracing of a typical step. What folding does to
compile time and memory on your slice is a preflight's comparison, where one is in the run folder (docs/preflight.md).

## How to fix

Fold the layers with scan_layers, and tell it that they are pure, if they are. On TPU look at the device's step before
you keep it: without rematerialisation scan stacks every activation, and in our preflight of a 24-layer decoder on v5e
(docs/preflight.md) the compile fell from 113 s to 62 s while the device's step rose from 102 ms to 208 ms and
temporaries from 2.9 to 6.7 GB. It pays where the host or the compiler is what limits. A partition_fn of
`functorch.compile.min_cut_rematerialization_partition` stores less.

## Limits and false positives

The price counts what scan itself takes the host, as measured with torch_xla 2.9 on one machine: of eight layers or
fewer it takes more than it saves. What of tracing is outside the layers is taken from the ops that name one of them.
Flash and splash attention work inside scan; the grouped matrix product of mixture-of-experts models (GMM) does not.
scan stacks the layers' parameters and, without rematerialisation, every activation: the price knows the host alone, and
the device's step may grow by more than the host saves. All layers must be alike.

## References

- https://docs.pytorch.org/xla/release/r2.9/features/scan.html
- https://github.com/pytorch/xla/issues/8632
- https://github.com/pytorch/xla/pull/8654
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.report.schema import Evidence, LoopRow
from tpuprof.rules.base import (
    STABLE,
    Outcome,
    counterfactual,
    failed,
    not_applicable,
    not_checked,
    passed,
    rule,
)
from tpuprof.rules.shared.preflight import variant_evidence
from tpuprof.rules.thresholds import TRACING_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change

# What a cached scan of layers takes the host itself, forward and backward: so long whatever the layers (ms), so long
# for each (ms), and as much as tracing so many of them (layers). Source: steps of scenarios/unrolled_layers without a
# capture, torch_xla 2.9 on an AMD EPYC, layers x rounds, looped and scanned (ms): 8 x 3 4.2 and 9.6, 16 x 1 3.8 and
# 5.4, 16 x 3 9.3 and 9.6 to 14.3, 12 x 6 24.9 and 21.8, 48 x 1 11.7 and 6.7 to 9.5, 32 x 3 26 to 33 and 12 to 15.
# These constants give 8.0, 6.0, 8.9, 21.3, 8.0 and 11.5 for the scans.
SCAN_MS = 3.0
SCAN_MS_PER_LAYER = 0.06
SCAN_LAYERS = 8.5
# Share of tracing that is outside the layers (loss, embedding, optimizer) where the names of ops do not say which are.
OUTSIDE_LAYERS = (0.0, 0.3)


@rule(
    status=STABLE,
    about="layers repeated without a loop",
    good="Layers repeated without a loop cost the host little",
    bad="scan_layers would fold repeated layers",
    reads=(
        "typical_tracing_ms",
        "typical_ms",
        "tracing_hidden_ms",
        "predicted",
        "command_if_noted",
        "framework",
        "unrolled",
        "preflight",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where enough copies of a block are traced in every step and tracing is exposed."""
    row = signals.unrolled
    if row is None:
        return not_applicable("no block was seen to repeat often in the programs of this capture")
    if signals.framework == "jax":
        return not_applicable("JAX traces a function once, not in every step")
    count = row.trip_count or 0
    copies = Evidence(f"{row.detail} in {row.program or 'a program'}", count, "copies", source=row.source)
    variants = variant_evidence(signals, "folding the layers", "folded.py")
    if signals.predicted:
        reason = "a predicted run has no tracing: capture a real one"
        return not_checked(reason, [copies, *variants])
    share = signals.typical_tracing_ms / signals.typical_ms
    exposed = Evidence("exposed tracing per typical step", share * signals.typical_ms, "ms")
    evidence = [copies, exposed, *variants]
    if not count or share < TRACING_FROM_SHARE:
        return passed(evidence)
    tracing_ms = share * signals.typical_ms + signals.tracing_hidden_ms
    least, most = (_left(count, tracing_ms, each) for each in _outside(row))
    if least >= 1:
        return passed(evidence, reason="scan itself would take the host as long as tracing these layers does")
    return failed(
        share * (1 - (least + most) / 2),
        evidence,
        title=f"scan_layers would fold {count} layers",
        price=counterfactual(Change(host={part.TRACING: least}), Change(host={part.TRACING: most})),
    )


def _outside(row: LoopRow) -> tuple[float, float]:
    """Share of tracing that is outside the layers, at least and at most: as much as of the program's ops."""
    if row.ops_share_low is None or row.ops_share_high is None:
        return OUTSIDE_LAYERS
    return 1 - row.ops_share_high, 1 - row.ops_share_low


def _left(count: int, tracing_ms: float, outside: float) -> float:
    """Share of a step's tracing that stays with `count` layers in a scan, that share of it being outside of them."""
    layer_ms = tracing_ms * (1 - outside) / count
    scan_ms = SCAN_MS + count * SCAN_MS_PER_LAYER + SCAN_LAYERS * layer_ms
    return min(outside + scan_ms / tracing_ms, 1.0)
