"""The device waits for copies to and from host memory.

## What it detects

Time in which the device waits for host-offload copies (memory space S(5)) that no computing hides.

## Why it costs time

Offloading trades HBM for traffic over the host link, which moves tens of GB/s. Copies that take longer than the
computing beside them make the device wait for the rest.

## Evidence

Each copy with its direction, bytes, rate, exposed and hidden time a step, and how long before its wait it was begun.

## How to fix

Offload less (only the tensors that do not fit), recompute cheap activations instead, or give each copy more computing
to hide behind: a larger batch per copy, or offloading every other layer.

Before:

    x = offload_name(x, "decoder_input")

After:

    # keep in HBM; recompute inside the layer instead
    layer = checkpoint_wrapper(layer)

## Limits and false positives

The price takes all exposed copy time out, as if the tensors stayed in HBM; whether they fit is told by hbm-pressure
and offload-unneeded.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/scan.html
- https://github.com/openxla/xla/issues/17541
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.rules.transfers import transfer_evidence
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import format_share


@rule(
    about="waits for host-offload copies",
    good="The device hardly waits for host-offload copies",
    bad="The device waits for host-offload copies",
)
def check(signals: Signals) -> Outcome:
    """Fail where exposed copies take enough of the step."""
    if not signals.offload:
        return not_applicable("nothing was offloaded to host memory")
    share = signals.offload_share
    evidence = transfer_evidence(signals.offload)
    if share < FAILS_FROM_SHARE:
        return passed(evidence)
    return failed(
        share,
        evidence,
        title=f"The device waits {format_share(share)} of each step for copies to and from host memory",
        price=counterfactual(Change(device={part.OFFLOAD: 0.0})),
        confidence="high",
    )
