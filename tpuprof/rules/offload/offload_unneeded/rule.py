"""Tensors are offloaded although HBM has room for them.

## What it detects

Host offload in a run whose peak HBM leaves at least three tenths of the capacity free.

## Why it costs time

Each copy takes bandwidth and, where it is exposed, device time, to save memory that is not short.

## Evidence

Peak HBM, capacity, and exposed copy time a step.

## How to fix

Keep the tensors in HBM: take them out of names_to_offload.

Before:

    names_to_offload=["decoder_input", "attention_output"]

After:

    names_to_offload=[]

## Limits and false positives

The peak is that of the captured programs; evaluation or a longer batch may need more.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/scan.html
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.thresholds import FAILS_FROM_SHARE, HBM_TO_SPARE_BELOW_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import format_share


@rule(
    about="need for offloading",
    good="Offloading is needed, or costs little",
    bad="Tensors are offloaded although HBM has room",
)
def check(signals: Signals) -> Outcome:
    """Fail where HBM has room and exposed copies take enough of the step."""
    if not signals.offload:
        return not_applicable("nothing was offloaded to host memory")
    used, share = signals.hbm_share, signals.offload_share
    evidence = [
        Evidence("peak HBM, share of capacity", used, "share"),
        Evidence("exposed copies, share of the step", share, "share"),
    ]
    if used >= HBM_TO_SPARE_BELOW_SHARE or share < FAILS_FROM_SHARE:
        return passed(evidence)
    title = f"Tensors are offloaded although the peak takes {format_share(used)} of HBM"
    return failed(share, evidence, title=title, price=counterfactual(Change(device={part.OFFLOAD: 0.0})))
