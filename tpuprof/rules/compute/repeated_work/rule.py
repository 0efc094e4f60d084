"""Every device computes the same.

## What it detects

Matrix multiplications, and what computes on with their results, of which each device of a program that is split over
several does all: what goes in is whole on each device, as an input that is replicated or a value that was gathered. Of
activations that were gathered other ops count as well.
And a program whose inputs are the same on some devices: of a mesh with two axes, weights are split over one, and the
batch over none.

## Why it costs time

Four devices that compute the same need as long as one. Split over them, each would do a quarter.

## Evidence

The ops with their device time and source lines, and on how many devices each computes the same. Or how many devices
have the same inputs.

## How to fix

Split the batch: `xs.mark_sharding(batch, mesh, ("data", None))` before the step uses it, for each batch, or
`input_sharding=xs.ShardingSpec(mesh, ("data", None))` for `MpDeviceLoader`. Look for a `mark_sharding` of an activation
with `None` for every axis: it gathers the value, and all that follows is computed on every device. An axis of the mesh
that has one device splits nothing: name another one. Where inputs are split, a value of unknown sharding between layers
may need a mark of its own.

## How to fix in JAX

Give the batch to the step in pieces: `jax.device_put(batch, NamedSharding(mesh, P("data")))`, or `in_shardings` of
`jax.jit`. An axis of the mesh that has one device splits nothing. Look at the line of each op for what makes a value
whole before it: `with_sharding_constraint(h, P())` between layers, or with a spec that leaves the batch's axis out as
`P(None, None, "model")` does, `device_put` to a replicated sharding between two functions, `out_shardings` without an
axis. Constrain it to `P("data")` instead.

## Limits and false positives

Which values are whole is read from the compiled program; a loop or a call of the host that it does not tell of counts
as split. Inputs that are the same on some devices do not show that these compute the same, since values inside of the
program may be split: confidence is low then, and the price begins at nothing. What is small may be quicker computed
everywhere than sent. The price takes out what the other devices could do, which is the most that can be gained:
gradients of a batch that is split have to be summed. Where the devices are this machine's CPUs and host and devices
take CPUs from each other, it reaches up to that even where a replay waits for the host: the host is faster then, too. A
split batch saved 67 ms where a replay gave 38. On such devices the price begins at nothing, since a sum over devices is
a copy by the same CPUs: of three programs one gained 148 of 178 ms, one 27 of 117, and one with 12 MB of gradients 1 of
66.

## References

- https://docs.jax.dev/en/latest/_autosummary/jax.lax.with_sharding_constraint.html
- https://docs.pytorch.org/xla/release/r2.9/perf/spmd_basic.html
"""

from __future__ import annotations

from dataclasses import replace

from tpuprof import parts as part
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.shared.ops import ms_of, op_evidence
from tpuprof.rules.shared.own_cpus import short_of_cpus
from tpuprof.rules.thresholds import OPS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import format_share

# How much of what a split saves is left at least on devices of their own (ratio): sums and gathers of a split batch
# take some of it. A judgement.
GAINED_AT_LEAST = 0.5


@rule(
    about="work that every device repeats",
    good="Devices hardly compute the same",
    bad="Every device computes the same",
    reads=("busy_share", "ops", "compute_ms", "device_type", "cpus_short", "alike_inputs"),
)
def check(signals: Signals) -> Outcome:
    """Fail where ops that each device computes alike take enough of the device's time."""
    repeated = signals.ops.column("repeated")
    if all(each is None for each in repeated):
        return not_applicable("no program that is split over several devices was seen")
    kinds = zip(repeated, signals.ops.column("kind"), strict=True)
    rows = signals.ops.where([bool(devices) and kind == "compute" for devices, kind in kinds])
    share = rows.ms_per_step() / signals.compute_ms
    evidence = op_evidence(rows)
    if share < OPS_FROM_SHARE:
        return _of_inputs(signals) or passed(evidence)
    devices = max(rows.column("repeated"))
    gained = share * (1 - 1 / devices)
    # Sums of gradients are copies by the same CPUs there, and may take all of it.
    least = 0.0 if signals.device_type == "CPU" else gained * GAINED_AT_LEAST
    return failed(
        gained * signals.busy_share,
        evidence,
        title=f"Each of {devices} devices computes the same in ops that take {format_share(share)} of its time",
        price=replace(
            counterfactual(
                Change(device={part.COMPUTE: 1 - gained}),
                Change(device={part.COMPUTE: 1 - least}),
                ops=ms_of(rows, left=1 / devices),
            ),
            # Where the host waits for CPUs that such devices use, it is faster without that work as well.
            in_all=gained * signals.busy_share if short_of_cpus(signals) else 0.0,
        ),
    )


def _of_inputs(signals: Signals) -> Outcome | None:
    """Fail where devices have the same inputs, so that they may compute the same; None where each has its own."""
    alike = signals.alike_inputs
    if alike < 2:
        return None
    gained = 1 - 1 / alike
    return failed(
        gained * signals.busy_share,
        [Evidence("devices with the same inputs of the step's program", alike, "devices")],
        title=f"No input tells {alike} devices of the mesh apart, so they may compute the same",
        # Nothing is saved where values inside of the program are split.
        price=counterfactual(Change(device={part.COMPUTE: 1 - gained}), Change()),
        confidence="low",
    )
