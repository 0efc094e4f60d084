"""The device waits for copies to and from host memory.

## What it detects

Time in which the device waits for host-offload copies (memory space S(5)) that no computing hides.

## Why it costs time

Offloading trades HBM for traffic over the host link, which moves tens of GB/s. Copies that take longer than the
computing beside them make the device wait for the rest.

## Evidence

Each copy with its direction, bytes, rate, its time per step exposed, behind compute and behind other transfers, and how
long before its wait it was begun. The floor: what the link needs for these bytes at the rate of a copy alone on it.

## How to fix

Move less: offload only tensors that do not fit, and compute cheap activations again in the backward pass. Or give
each copy more to hide behind: more computing between a tensor's last use and its return. In torch_xla a tensor moves
by `torch_xla.experimental.stablehlo_custom_call.place_to_host` and place_to_device; under scan, a partition_fn of
scan_layers decides what is kept.

## How to fix in JAX

Offload less: choose another policy of `jax.checkpoint_policies`, such as save_and_offload_only_these_names with fewer
names, or compute cheap activations again (`jax.checkpoint`).

## Limits and false positives

The price keeps the bytes and overlaps them with all else in the step. At most, the link moves both directions at once
at their full rates; at least, one direction at a time, and half of what that leaves to gain. Below this floor a step
gets only with fewer bytes: offload-unneeded says whether the tensors fit into HBM. Where the link alone fills the step,
there is no price.

## References

- https://github.com/openxla/xla/issues/17541
- https://docs.pytorch.org/xla/release/r2.9/features/scan.html
"""

from __future__ import annotations

from tpuprof.rules.base import Outcome, failed, not_applicable, passed, rule
from tpuprof.rules.shared.link import floor_of, floor_sentence, offload_price
from tpuprof.rules.shared.transfers import transfer_evidence
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.units import format_share


@rule(
    about="waits for host-offload copies",
    good="The device hardly waits for host-offload copies",
    bad="The device waits for host-offload copies",
    reads=("step_ms", "step_count", "device_type", "offload", "offload_share"),
)
def check(signals: Signals) -> Outcome:
    """Fail where exposed copies take enough of the step."""
    if not signals.offload:
        return not_applicable("nothing was offloaded to host memory")
    share = signals.offload_share
    evidence = transfer_evidence(signals.offload)
    if share < FAILS_FROM_SHARE:
        return passed(evidence)
    floor, title = floor_of(signals), f"The device waits {format_share(share)} of each step for host copies"
    if floor is not None:
        evidence += floor.evidence()
        title = f"{title}; {floor_sentence(floor)}"
    priced = offload_price(signals, floor)
    return failed(
        share, evidence, title=title, price=priced.price, reason=priced.reason, confidence=priced.confidence
    )
