"""The device waits for communication between chips.

## What it detects

Time in which a device waits on collectives (all-reduce, reduce-scatter, all-to-all, ...) that no computing hides.
All-gathers of FSDPv2's parameters are the business of exposed-parameter-gather.

## Why it costs time

Communication that runs beside computing costs nothing; what the device must wait for is added to the step.

## Evidence

Each collective with its exposed and hidden time per step, its bytes and its source line.

## How to fix

[activations] Activations are made whole on every device. Look before these gathers for an `xs.mark_sharding` of an
activation whose spec has `None` for an axis that is split until there, mostly the batch's, and name the mesh's axis
there: `("data", None, "model")` where the batch is split over "data". Where weights are split and no activation is
marked, mark what goes into them by the batch's axis: else the compiler may gather that, and not the weights.

Send less, or give the compiler something to hide it behind. Split the batch over chips before you split layers over
them: data parallelism sends gradients once per step, tensor parallelism sends activations several times per layer. A
larger batch per chip gives each collective more to hide behind. Call `xm.reduce_gradients` once per step, not once
per micro batch.

Flags go into LIBTPU_INIT_ARGS before torch_xla is imported. torch_xla 2.9 itself sets
--xla_tpu_prefer_async_allgather_to_allreduce=true and --xla_latency_hiding_scheduler_rerun=1 on every TPU, and
--xla_enable_async_all_gather=true and --xla_enable_async_collective_permute=true on v5e and v5p only. Elsewhere libtpu
decides ("auto"). What OpenXLA's guide says is off by default, and worth a try: for all-reduces
--xla_tpu_enable_async_collective_fusion_fuse_all_reduce=true with --xla_enable_async_all_reduce=true, for all-to-alls
--xla_tpu_enable_async_all_to_all=true. For gradients that cross slices try
--xla_tpu_enable_data_parallel_all_reduce_opt=true with --xla_tpu_data_parallel_opt_different_sized_ops=true, which may
take more memory. Measure each: what libtpu sets by default differs between its releases.

Between slices there is only the data centre network (DCN), many times slower than the links between chips. Let
gradients alone cross it, once per step: `xs.HybridMesh(ici_mesh_shape=..., dcn_mesh_shape=...)` keeps the axes of FSDP
and of tensors inside of a slice, and the batch is split over slices. A larger batch per slice hides what remains.

## How to fix in JAX

[activations] Activations are made whole on every device. Look before these gathers for a `with_sharding_constraint`
(`nn.with_logical_constraint`) whose spec has `None` for an axis that is split until there, mostly the batch's, and name
the mesh's axis there: `P("data", None, "model")` where the batch is split over "data". Where weights are split and no
activation is constrained, constrain what goes into them by the batch's axis: else the compiler may gather that, and not
the weights.

Split the batch over chips before you split layers over them: give the batch a `NamedSharding` over the data axis. A
larger batch per chip gives each collective more to hide behind. JAX sets none of these flags itself, and libtpu
decides by itself on gathers and permutes ("auto"). What OpenXLA's guide says is off by default goes into
LIBTPU_INIT_ARGS: for all-reduces --xla_tpu_enable_async_collective_fusion_fuse_all_reduce=true with
--xla_enable_async_all_reduce=true, for all-to-alls --xla_tpu_enable_async_all_to_all=true. For gradients that cross
slices try --xla_tpu_enable_data_parallel_all_reduce_opt=true with
--xla_tpu_data_parallel_opt_different_sized_ops=true, which may take more memory. Measure each: what libtpu sets by
default differs between its releases.

Between slices there is only the data centre network (DCN), many times slower than the links between chips. Let
gradients alone cross it, once per step: `mesh_utils.create_hybrid_device_mesh(mesh_shape, dcn_mesh_shape)` keeps the
axes of FSDP and of tensors inside of a slice, and the batch is split over slices. A larger batch per slice hides what
remains.

## Limits and false positives

A device that waits for a slower one waits in a collective. What chips and hosts wait there for the one that comes last
is left out: see barrier-skew and straggler-host. That gathers make activations whole is known where the program is in
the trace and they are of all devices; what each device then computes of the whole is the business of repeated-work. The
price takes all other exposed time out, which is the most that can be gained.

## References

- https://github.com/pytorch/xla/issues/6778
- https://github.com/pytorch/xla/pull/6168
- https://github.com/AI-Hypercomputer/maxtext/pull/368
- https://openxla.org/xla/flags_guidance
- https://openxla.org/xprof/megascale_stats
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.rules.base import Outcome, counterfactual, failed, not_applicable, passed, rule
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

HIDDEN_AT_LEAST = 0.5
# Share of the exposed time from which the title says what most of it is: more than half.
MOSTLY = 0.5


@rule(
    about="waits for communication between chips",
    good="The device hardly waits for communication",
    bad="The device waits for communication",
    reads=("collectives", "collective_share", "gathered_whole", "parameter_gathers", "late_chip_share"),
)
def check(signals: Signals) -> Outcome:
    """Fail where exposed collectives other than parameter gathers take enough of the step."""
    rows = [row for row in signals.collectives if row not in signals.parameter_gathers]
    if not rows:
        return not_applicable(
            "no collective ran but gathers of parameters"
            if signals.collectives
            else "no collective ran in the steps"
        )
    waits = exposed_share(rows, signals.collectives) * signals.collective_share
    late = signals.late_chip_share
    share = waits * (1 - late)
    evidence = [*late_evidence(waits, late), *transfer_evidence(rows)]
    if share < FAILS_FROM_SHARE:
        return passed(evidence, reason=MOSTLY_LATE if waits >= FAILS_FROM_SHARE else "")
    of_all = share / signals.collective_share
    between = exposed_share([row for row in rows if row.across_slices], rows)
    mostly = ", mostly between slices" if between >= MOSTLY else ""
    whole = exposed_share([row for row in rows if row.name in signals.gathered_whole], rows) >= MOSTLY
    if whole:
        mostly += ", mostly to make activations whole on every device"
    return failed(
        share,
        evidence,
        title=f"The device waits {format_share(share)} of each step for communication{mostly}",
        price=counterfactual(
            Change(device={part.COLLECTIVE: 1 - of_all}),
            Change(device={part.COLLECTIVE: 1 - of_all * HIDDEN_AT_LEAST}),
            ops=exposed_ops(rows),
        ),
        cases=frozenset({"activations"} if whole else ()),
    )
