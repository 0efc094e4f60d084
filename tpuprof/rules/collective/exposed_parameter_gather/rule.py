"""FSDPv2 gathers parameters, and the device waits for it.

## What it detects

All-gathers of parameters (FSDPv2) whose time no computing hides.

## Why it costs time

FSDPv2 keeps each parameter in pieces and gathers it before each use, forward and backward. Where the gather is not
scheduled beside the layer before, the device waits for it twice per layer.

## Evidence

Each all-gather with its parameter or layer, forward or backward, exposed and hidden time per step, bytes and line.

## How to fix

Use a larger batch per chip: the gathers stay as they are and computing grows. Where whole parameters with their
optimizer state fit (the rule says so), keep them whole and shard the batch only: nothing is gathered, and each
reduce-scatter of gradients becomes an all-reduce, which sends twice as much as the reduce-scatter alone. A step then
sends two units where FSDPv2 sends three. Wrap layers, not single weights, and leave small weights unwrapped.

FSDPv2 of torch_xla shards weights over the mesh axis named "fsdp" alone. On a mesh of ("data", "fsdp") the batch and
every output must be sharded over both axes: mark the input with (("data", "fsdp"), None) and pass a shard_output that
does the same. `extra_data_axis` has an effect in the default shard_output only. Fewer shards save little: each chip
receives (n-1)/n of the weights, so that 4 shards instead of 8 receive 3/4 instead of 7/8, about 14 % less.

To hide gathers, check the flags: torch_xla 2.9 sets --xla_enable_async_all_gather=true on v5e and v5p only. On v4,
v6e and v7x put it into LIBTPU_INIT_ARGS yourself.

## How to fix in JAX

Use a larger batch per chip. Where whole parameters with their optimizer state fit, shard the batch only: each
reduce-scatter becomes an all-reduce, and nothing is gathered. On a mesh of ("data", "fsdp") the batch's
`PartitionSpec` names both axes, (("data", "fsdp"),), and weights name "fsdp". Put --xla_enable_async_all_gather=true
into LIBTPU_INIT_ARGS: JAX does not set it itself.

## Limits and false positives

Which all-gather is of a parameter is read from the program; where it does not tell and FSDPv2 is in use, all
of them count. Where the device has room for whole parameters with their gradients and
optimizer state, the price takes all exposed time of the gathers out; else half of it up to all.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/fsdpv2.html
- https://github.com/pytorch/xla/issues/6778
- https://github.com/pytorch/xla/pull/6168
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.report.schema import TransferRow
from tpuprof.rules.base import STABLE, Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.shared.transfers import exposed_ops, exposed_share, transfer_evidence
from tpuprof.rules.thresholds import FAILS_FROM_SHARE, HBM_PRESSURE_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import format_share

# How much of the exposed gathers goes where they are made fewer or hidden, but not spared (share). A judgement.
HIDDEN_AT_LEAST = 0.5
# What training with Adam keeps of a parameter: itself, its gradient and two moments, of one size each (ratio; the count
# of ZeRO, Rajbhandari and others 2020, section 3.1, without mixed precision).
STATE_PER_PARAMETER = 4


@rule(
    status=STABLE,
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
            ops=exposed_ops(rows),
        ),
    )


def _whole_parameters_fit(signals: Signals, rows: list[TransferRow]) -> bool:
    """Whether parameters need no sharding: the device uses the host's memory, or its own has room for all of them."""
    if signals.device_type == "CPU":
        return True
    memory = signals.memory_if_known
    if memory.peak_bytes is None or not memory.capacity_bytes:
        return False
    # Each parameter is gathered forward and backward.
    sizes = {row.parameter or row.name: row.bytes or 0 for row in rows if row.direction != "backward"}
    wanted = memory.peak_bytes + STATE_PER_PARAMETER * sum(sizes.values())
    return wanted <= HBM_PRESSURE_FROM_SHARE * memory.capacity_bytes
