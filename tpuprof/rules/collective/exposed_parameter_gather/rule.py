"""FSDPv2 gathers parameters, and the device waits for it.

## What it detects

All-gathers of parameters (FSDPv2) whose time no computing hides.

## Why it costs time

FSDPv2 keeps each parameter in pieces and gathers it before each use, forward and backward. Where the gather is not
scheduled beside the layer before, the device waits for it twice a layer.

## Evidence

Each all-gather with its parameter or layer, forward or backward, exposed and hidden time per step, bytes and line.

## How to fix

Shard what needs it: keep small parameters whole, use a larger batch per chip, or shard over fewer chips of a
two-dimensional mesh. With memory to spare, replicate the parameters.

Before:

    mesh = xs.Mesh(np.arange(8), (8, 1), ("fsdp", "model"))
    model = FSDPv2(model, mesh=mesh, shard_output=shard_output)

After:

    mesh = xs.Mesh(np.arange(8), (2, 4), ("data", "fsdp"))
    model = FSDPv2(model, mesh=mesh, shard_output=shard_output, extra_data_axis="data")

## Limits and false positives

Which all-gather is of a parameter is read from the program; where it does not tell and FSDPv2 is in use, all
of them count. Where the device has room for whole parameters with their gradients and
optimizer state, the price takes all exposed time of the gathers out; else half of it up to all.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/fsdpv2.html
- https://github.com/pytorch/xla/issues/6778
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.report.schema import TransferRow
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.thresholds import FAILS_FROM_SHARE, HBM_PRESSURE_FROM_SHARE
from tpuprof.rules.transfers import exposed_share, transfer_evidence
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import format_share

# How much of the exposed gathers goes where they are made fewer or hidden, but not spared (share). A judgement.
HIDDEN_AT_LEAST = 0.5
# What training with Adam keeps of a parameter: itself, its gradient and two moments, of one size each (ratio; the count
# of ZeRO, Rajbhandari and others 2020, section 3.1, without mixed precision).
STATE_PER_PARAMETER = 4


@rule(
    about="waits for gathers of parameters",
    good="The device hardly waits for gathers of parameters",
    bad="The device waits for gathers of parameters",
)
def check(signals: Signals) -> Outcome:
    """Fail where exposed all-gathers of parameters take enough of the step."""
    rows = signals.parameter_gathers
    if not rows:
        return not_applicable("no all-gather of a parameter was seen")
    share = exposed_share(rows, signals.collectives) * signals.collective_share
    evidence = transfer_evidence(rows)
    if share < FAILS_FROM_SHARE:
        return passed(evidence)
    of_all = share / signals.collective_share
    surely = 1.0 if _whole_parameters_fit(signals, rows) else HIDDEN_AT_LEAST
    return failed(
        share,
        evidence,
        title=f"The device waits {format_share(share)} of each step for gathers of parameters",
        price=counterfactual(
            Change(device={part.COLLECTIVE: 1 - of_all}),
            Change(device={part.COLLECTIVE: 1 - of_all * surely}),
        ),
    )


def _whole_parameters_fit(signals: Signals, rows: list[TransferRow]) -> bool:
    """Whether parameters need no sharding: the device uses the host's memory, or its own has room for all of them."""
    if signals.report.environment.get("device_type") == "CPU":
        return True
    memory = signals.report.memory
    if memory.peak_bytes is None or not memory.capacity_bytes:
        return False
    # Each parameter is gathered forward and backward.
    sizes = {row.parameter or row.name: row.bytes or 0 for row in rows if row.direction != "backward"}
    wanted = memory.peak_bytes + STATE_PER_PARAMETER * sum(sizes.values())
    return wanted <= HBM_PRESSURE_FROM_SHARE * memory.capacity_bytes
