"""How well the device's work uses the device: roofline, MFU, padding, float32 matmuls, layout copies, kernels.

Rates are over self time. The roofline of an op is the time that its FLOPs at peak, or its bytes at peak HBM
bandwidth, would take, whichever is longer (Williams, Waterman, Patterson, "Roofline", CACM 2009).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

import numpy as np

from tpuprof.bounds import CLOCK_SLACK, Checked, checked
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.op_facts import FLOATS
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.device.op_table import OpTotal
from tpuprof.model.steps import Steps
from tpuprof.records import record
from tpuprof.units import PS_PER_S, format_share

# Ops whose padded arrays take this many times their values' bytes count as padded (ratio). A fifth lost is what
# rounding 104 rows up to 128 costs; smaller losses are common and not worth another shape.
PADDED_FROM = 1.25
# Kernels named in the note on MFU (names).
KERNELS_NAMED = 3
# Note of an op that waits for the host, where nothing in the trace tells for what.
EITHER = "it waits for a Python callback on the host, or for another slice: nothing in the trace tells which"
# Looked up once: Python 3.11 looks for members of an enumeration in a slow way, and here it is done for each op.
_COMPUTE, _CONTAINER = OpKind.COMPUTE, OpKind.CONTAINER
_ASYNC = re.compile(r"-(start|done)(?=\.|$)")


class OpCost(NamedTuple):
    """What one op's HLO line and totals say of its efficiency; None where they cannot tell.

    `bytes_per_s` is of HBM. What breaks the chip's peaks is None, for the reason in `note`; else that may be
    `EITHER`. `limit` is compute or
    memory, the side of the roofline the op is on; `roofline` the share of that roof it reaches (0 to 1); `padding`
    padded bytes over bytes of its arrays; `matmul_type` the element type a matmul reads, empty for other ops;
    `kernel` a custom call's own name; `layout_copy` whether it only moves data about; `upcast` whether it
    writes a bfloat16 array out again as float32, None where no HLO line tells; `looks_up` whether it gathers or
    scatters rows of a table, None where that is unknown.
    """

    flops_per_s: float | None = None
    bytes_per_s: float | None = None
    limit: str = ""
    roofline: float | None = None
    padding: float | None = None
    matmul_type: str = ""
    kernel: str = ""
    layout_copy: bool = False
    upcast: bool | None = None
    looks_up: bool | None = None
    note: str = ""


@record(frozen=True)
class Compute:
    """The device's compute over all steps and devices; times are sums of the devices' own time in steps (ps).

    `mfu` is FLOPs of the steps over what the devices could do meanwhile, None for the reason in `mfu_note`.
    """

    mfu: float | None
    mfu_note: str
    flops: int
    by_category: list[tuple[str, float]]
    float32_matmul_ps: float
    matmul_ps: float
    layout_copy_ps: float
    padded_ps: float
    kernels: dict[str, float] = field(default_factory=dict)


def flops_in_steps(device: DeviceActivity, steps: Steps) -> int:
    """FLOPs of the ops that one device ran inside steps, those of loop bodies each time."""
    own = np.where(device.ops.kind == OpKind.CONTAINER, 0, device.ops.flops)
    return int((own * device.sums(steps.spans).executions_in_steps).sum())


def op_cost(op: OpTotal, peak_flops: float | None, peak_bytes: float | None) -> OpCost:
    """The efficiency of one op, given the peaks of one device per second."""
    if op.kind == _CONTAINER:
        return OpCost()
    seconds = op.self_ps / PS_PER_S
    flops, moved = op.flops * op.occurrences, op.hbm_bytes * op.occurrences
    limit, roofline = "", Checked(None)
    # The halves of an asynchronous op hand a transfer over and wait for it: their bytes move in between.
    half = _ASYNC.search(op.name) is not None
    # What waits for a link is not limited by HBM or the matrix units.
    if op.kind == _COMPUTE and not half:
        limit, roofline = _roofline(flops, moved, seconds, peak_flops, peak_bytes)
    speed = _rate(flops, seconds, half, peak_flops, "its FLOP rate", "the chip's peak")
    traffic = _rate(
        moved, seconds, half, peak_bytes, "its HBM traffic per second", "the chip's HBM bandwidth"
    )
    facts = op.facts
    return OpCost(
        flops_per_s=speed.value,
        bytes_per_s=traffic.value,
        limit=limit if roofline.value is not None else "",
        roofline=roofline.value,
        padding=facts.padded / facts.values if facts.padded else None,
        matmul_type=facts.matmul_type,
        kernel=facts.kernel,
        layout_copy=facts.layout_copy,
        upcast=facts.upcast,
        looks_up=facts.looks_up,
        note=roofline.note or speed.note or traffic.note or (EITHER if facts.unclear else ""),
    )


def summarise(
    ops: list[OpTotal], costs: Mapping[int, OpCost], flops: int, peak_flops: float | None, wall_ps: int
) -> Compute:
    """Compute of a run: `ops` with the cost of each by its position.

    `flops` are those of all devices inside steps, `wall_ps` the wall time of all steps summed over devices.
    """
    categories: dict[str, float] = {}
    kernels: dict[str, float] = {}
    for row, op in enumerate(ops):
        if op.kind != _CONTAINER:
            categories[op.facts.label] = categories.get(op.facts.label, 0.0) + op.step_ps
        if costs[row].kernel:
            kernels[costs[row].kernel] = kernels.get(costs[row].kernel, 0.0) + op.step_ps
    mfu, note = _mfu(flops, peak_flops, wall_ps, kernels_without_flops(ops, costs))
    rows = range(len(ops))
    return Compute(
        mfu=mfu,
        mfu_note=note,
        flops=flops,
        by_category=sorted(categories.items(), key=lambda each: -each[1]),
        float32_matmul_ps=sum(ops[row].step_ps for row in rows if costs[row].matmul_type in FLOATS),
        matmul_ps=sum(op.step_ps for op in ops if op.facts.matmul),
        layout_copy_ps=sum(ops[row].step_ps for row in rows if costs[row].layout_copy),
        padded_ps=sum(ops[row].step_ps for row in rows if (costs[row].padding or 0.0) >= PADDED_FROM),
        kernels=kernels,
    )


def kernels_without_flops(ops: list[OpTotal], costs: Mapping[int, OpCost]) -> list[str]:
    """Kernels of which nothing states FLOPs, so that all sums of FLOPs are less than what was computed."""
    return sorted({costs[row].kernel for row, op in enumerate(ops) if costs[row].kernel and not op.flops})


def _rate(amount: int, seconds: float, half: bool, peak: float | None, what: str, bound: str) -> Checked:
    if not amount or not seconds or half:
        return Checked(None)
    return checked(amount / seconds, what, at_most=peak, bound=bound, show=_per_second, slack=CLOCK_SLACK)


def _per_second(value: float) -> str:
    return f"{value:.3g} per second"


def _mfu(flops: int, peak: float | None, wall_ps: int, unknown: list[str]) -> tuple[float | None, str]:
    if not flops:
        # A device whose peak is stated is a real one.
        also = "" if peak else ", nor the device's peak FLOP/s, as on PJRT_DEVICE=CPU"
        return None, f"unavailable: the trace states no FLOPs for its ops{also}"
    if not peak:
        return None, "unavailable: the trace does not state the device's peak FLOP/s"
    if not wall_ps:
        return None, "unavailable: the trace has no steps"
    found = checked(
        flops / (peak * wall_ps / PS_PER_S),
        "MFU",
        at_most=1.0,
        bound="what the chip can do",
        show=format_share,
    )
    if found.value is None:
        return None, f"{found.note}: the FLOPs or the peak that the trace states are wrong"
    note = "from the FLOPs of the ops that ran: recomputed ones (rematerialization) count each time"
    if unknown:
        note = f"a lower bound: {', '.join(unknown[:KERNELS_NAMED])} state no FLOPs; {note}"
    return found.value, note


def _roofline(
    flops: int, moved: int, seconds: float, peak_flops: float | None, peak_bytes: float | None
) -> tuple[str, Checked]:
    if not seconds or not peak_flops or not peak_bytes or not (flops or moved):
        return "", Checked(None)
    compute, memory = flops / peak_flops, moved / peak_bytes
    limit = "compute" if compute >= memory else "memory"
    share = max(compute, memory) / seconds
    bound = f"what the chip's {limit} allows"
    return limit, checked(share, "its speed", at_most=1.0, bound=bound, show=_of_roof, slack=CLOCK_SLACK)


def _of_roof(value: float) -> str:
    return f"{format_share(value)} of its roofline"
