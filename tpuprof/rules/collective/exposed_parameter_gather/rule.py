"""FSDPv2 gathers parameters, and the device waits for it.

## What it detects

All-gathers of parameters (FSDPv2) whose time no computing hides.

## Why it costs time

FSDPv2 keeps each parameter in pieces and gathers it before each use, forward and backward. Where the gather is not
scheduled beside the layer before, the device waits for it twice per layer.

## Evidence

Each all-gather with its parameter or layer, forward or backward, exposed and hidden time per step, bytes and line.

## How to fix

Use a larger batch per chip: the gathers stay as they are, and there is more computing to hide them. Wrap layers, not
single weights, and leave small weights unwrapped.

Where whole parameters with their optimizer state fit, they can be kept whole, with the batch alone sharded: nothing is
gathered, and each reduce-scatter of gradients becomes an all-reduce, which sends twice as much. A step then sends two
units where FSDPv2 sends three, but gathers can hide beside computing and the all-reduces come at its end: for eight
weights of 1,024 x 1,024 on v5e-4 the compiler predicts 770 us per step with whole weights, 517 us with FSDPv2. So
compile both (`tpuprof preflight`) before you choose.

FSDPv2 of torch_xla shards weights over the mesh axis named "fsdp" alone. On a mesh of ("data", "fsdp") the batch and
every output must be sharded over both axes: mark the input with (("data", "fsdp"), None) and pass a shard_output that
does the same. `extra_data_axis` has an effect in the default shard_output only. Fewer shards save little: each chip
receives (n-1)/n of the weights, so that 4 shards instead of 8 receive 3/4 instead of 7/8, about 14 % less.

To hide gathers, check the flags: torch_xla 2.9 sets --xla_enable_async_all_gather=true on v5e and v5p only. On v4,
v6e and v7x libtpu decides ("auto"): where no gather has time behind compute, put the flag into LIBTPU_INIT_ARGS.

## How to fix in JAX

Use a larger batch per chip. Where whole parameters with their optimizer state fit, the batch alone can be sharded:
nothing is gathered, and each reduce-scatter becomes an all-reduce of twice the size. Compile both before you choose. On
a mesh of ("data", "fsdp") the batch's `PartitionSpec` names both axes, (("data", "fsdp"),), and weights name "fsdp".
JAX does not set --xla_enable_async_all_gather=true, and libtpu decides ("auto"): where no gather has time behind
compute, put it into LIBTPU_INIT_ARGS.

## Limits and false positives

Which all-gather is of a parameter is read from the program; where it does not tell and FSDPv2 is in use, all
of them count. The price takes half of the gathers' exposed time out, up to all of it: half is what whole parameters
save where nothing hides (two units sent for three, of which two are gathers). On the CPU device, whose gathers are
copies within one memory, it takes all of it out. Where several devices share this machine's CPUs, gathers slow the
others' computing too: the price reaches up to what is left with each op at its shortest, and without copies of what was
gathered.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/fsdpv2.html
- https://github.com/pytorch/xla/issues/6778
- https://github.com/pytorch/xla/pull/6168
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.rules.base import STABLE, Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.shared.transfers import (
    MOSTLY_LATE,
    exposed_ops,
    exposed_share,
    late_evidence,
    transfer_evidence,
)
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import format_share

# How much of the exposed gathers goes at least (share): whole parameters spare two units that are gathered and send one
# more of gradients. By how much a larger batch hides them is not in the trace.
HIDDEN_AT_LEAST = 0.5


@rule(
    status=STABLE,
    about="waits for gathers of parameters",
    good="The device hardly waits for gathers of parameters",
    bad="The device waits for gathers of parameters",
    reads=(
        "device_type",
        "collectives",
        "collective_share",
        "parameter_gathers",
        "late_chip_share",
        "beside_gathers_share",
        "step_ms",
        "steps",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where exposed all-gathers of parameters take enough of the step."""
    rows = signals.parameter_gathers
    if not rows:
        return not_applicable("no all-gather of a parameter was seen")
    waits = exposed_share(rows, signals.collectives) * signals.collective_share
    late = signals.late_chip_share
    share = waits * (1 - late)
    evidence = [*late_evidence(waits, late), *transfer_evidence(rows)]
    if share < FAILS_FROM_SHARE:
        return passed(evidence, reason=MOSTLY_LATE if waits >= FAILS_FROM_SHARE else "")
    of_all = share / signals.collective_share
    surely = 1.0 if signals.device_type == "CPU" else HIDDEN_AT_LEAST
    most, beside = {part.COLLECTIVE: 1 - of_all}, signals.beside_gathers_share
    at_stake = share
    if beside:
        most[part.COMPUTE] = 1 - beside
        at_stake += beside * signals.steps.mean_parts().get(part.COMPUTE, 0.0) / signals.step_ms
    return failed(
        at_stake,
        evidence,
        title=f"The device waits {format_share(share)} of each step for gathers of parameters",
        price=counterfactual(
            Change(device=most),
            Change(device={part.COLLECTIVE: 1 - of_all * surely}),
            ops=exposed_ops(rows),
        ),
    )
