"""Device time that goes to ops in float64: often nobody asked for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tpuprof.model.compile.hlo_metadata import double_ops
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.steps import Steps
from tpuprof.units import format_share

# Share of the device's own time in steps from which on a note names float64 (ratio): what rules on ops fail from.
TOLD_FROM_SHARE = 0.1


def double_precision(
    devices: Sequence[DeviceActivity], steps: Steps, protos: Mapping[str, bytes]
) -> list[str]:
    """A note where ops that return arrays in float64 take much of the device's time; none where programs do not tell.

    It is no finding: a program may need float64, and what float32 saves is unknown. XLA rewrites float64 for TPUs,
    which have none, so that the programs there do not tell.
    """
    total, took = 0, 0
    for device in devices:
        own = device.sums(steps.spans).self_ps_in_steps
        doubles = {label: double_ops(label, protos[label]) for label in {*device.ops.program} & {*protos}}
        for row, (program, name) in enumerate(zip(device.ops.program, device.ops.name, strict=True)):
            if device.ops.kind[row] == OpKind.CONTAINER:
                continue
            total += int(own[row])
            if name in doubles.get(program, ()):
                took += int(own[row])
    share = took / total if total else 0.0
    if share < TOLD_FROM_SHARE:
        return []
    return [
        f"{format_share(share)} of the device's time goes to ops in float64. Where the program does not need double "
        "precision, float32 takes half the memory and may take half the time; TPUs emulate float64. It comes from "
        "jax_enable_x64 in JAX, and from float64 arrays of NumPy, .double() or set_default_dtype in torch"
    ]
