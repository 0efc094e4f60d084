"""How long the profiler takes to record the ops of a CPU device: loops of many small ops take longer than they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpuprof.units import format_ms, format_share, ps_to_ms

if TYPE_CHECKING:
    from tpuprof.model.host_run import HostRun

# What it takes to record one op of a CPU device (ps). Measured (jax 0.7, 2 cores): a step of 640,000 ops took 122 ms,
# and 380 ms where it was recorded.
RECORDING_PS = 400_000
# Share of the steps from which recording is said (share): below it shares of the step are hardly others. A judgement.
SAID_FROM_SHARE = 0.25


def said_of_recording(hosts: Sequence[HostRun]) -> str:
    """How much of the steps recording takes about; empty where that is little, or steps without it were counted."""
    host = max(hosts, key=lambda each: int(each.steps.wall_ps.sum()), default=None)
    if host is None or not len(host.steps) or host.after_steps is not None:
        return ""
    device = next((each for each in host.devices if each.type == "CPU"), None)
    if device is None:
        return ""
    start = device.op_events.start
    ops = int(((start >= host.steps.start.min()) & (start < host.steps.end.max())).sum())
    taken, wall = ops * RECORDING_PS / device.count, int(host.steps.wall_ps.sum())
    if taken < SAID_FROM_SHARE * wall:
        return ""
    per_step = f"{ops / len(host.steps):,.0f}"
    return (
        f" To record {per_step} ops per step takes about {format_share(min(taken / wall, 1.0))} of these steps "
        f"({format_ms(ps_to_ms(min(taken, wall)) / len(host.steps))} each): without it they are shorter, and the same "
        "idle time is more of them."
    )
