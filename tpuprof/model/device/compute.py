"""How well the device's work uses the device: roofline, MFU, padding, float32 matmuls, layout copies, kernels.

Rates are over self time. The roofline of an op is the time that its FLOPs at peak, or its bytes at peak HBM
bandwidth, would take, whichever is longer (Williams, Waterman, Patterson, "Roofline", CACM 2009).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field

import numpy as np
import numpy.typing as npt

from tpuprof.bounds import CLOCK_SLACK, checked
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.op_facts import FLOAT32, OpFacts
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.device.op_table import OpTotals, numbered
from tpuprof.model.intervals import Bool, Int64
from tpuprof.model.steps import Steps
from tpuprof.records import record
from tpuprof.units import PS_PER_S, format_share, listed

Float64 = npt.NDArray[np.float64]
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


@record(frozen=True)
class OpCosts:
    """What the totals of ops say of their efficiency, one row an op; NaN where they cannot tell.

    `bytes_per_s` is of HBM. What breaks the chip's peaks is NaN, for the reason in `notes`, which is by row; else that
    may be `EITHER`. `limit` is compute or memory, the side of the roofline an op is on; `roofline` the share of that
    roof it reaches (0 to 1).
    """

    flops_per_s: Float64
    bytes_per_s: Float64
    limit: list[str]
    roofline: Float64
    notes: dict[int, str]


@record(frozen=True)
class Compute:
    """The device's compute over all steps and devices; times are sums of the devices' own time in steps (ps).

    `mfu` is FLOPs of the steps over what the devices could do meanwhile, None for the reason in `mfu_note`.
    `float32_matmul_ps` is None where no matmul says what it reads, `padded_ps` where no op says how its arrays are laid
    out.
    """

    mfu: float | None
    mfu_note: str
    flops: int
    by_category: list[tuple[str, float]]
    float32_matmul_ps: float | None
    matmul_ps: float
    layout_copy_ps: float
    padded_ps: float | None
    kernels: dict[str, float] = field(default_factory=dict)


def flops_in_steps(device: DeviceActivity, steps: Steps) -> int:
    """FLOPs of the ops that one device ran inside steps, those of loop bodies each time."""
    own = np.where(device.ops.kind == OpKind.CONTAINER, 0, device.ops.flops)
    return int((own * device.sums(steps.spans).executions_in_steps).sum())


def op_costs(ops: OpTotals, peak_flops: float | None, peak_bytes: float | None) -> OpCosts:
    """The efficiency of all ops, given the peaks of one device per second."""
    seconds = ops.self_ps / PS_PER_S
    executions = ops.occurrences.astype(np.float64)
    flops, moved = ops.flops.astype(np.float64) * executions, ops.hbm_bytes.astype(np.float64) * executions
    # The halves of an asynchronous op hand a transfer over and wait for it: their bytes move in between.
    half = np.array([_ASYNC.search(name) is not None for name in ops.name], np.bool_)
    timed = (ops.kind != _CONTAINER) & ~half & (seconds != 0.0)
    unclear = np.flatnonzero(ops.where(lambda facts: facts.unclear)).tolist()
    traffic, of_traffic = _checked(
        _over(moved, seconds, timed & (moved != 0.0)),
        peak_bytes,
        lambda _: ("its HBM traffic per second", "the chip's HBM bandwidth", _per_second),
    )
    speed, of_speed = _checked(
        _over(flops, seconds, timed & (flops != 0.0)),
        peak_flops,
        lambda _: ("its FLOP rate", "the chip's peak", _per_second),
    )
    # What waits for a link is not limited by HBM or the matrix units.
    roofed = timed & (ops.kind == _COMPUTE) & ((flops != 0.0) | (moved != 0.0))
    limit, roofline, of_roof = _rooflines(flops, moved, seconds, roofed, peak_flops, peak_bytes)
    notes = {**dict.fromkeys(unclear, EITHER), **of_traffic, **of_speed, **of_roof}
    return OpCosts(speed, traffic, limit, roofline, notes)


def padding(facts: OpFacts) -> float | None:
    """Padded bytes over bytes of an op's arrays, None where its line tells none."""
    return facts.padded / facts.values if facts.padded else None


def summarise(ops: OpTotals, flops: int, peak_flops: float | None, wall_ps: int) -> Compute:
    """Compute of a run.

    `flops` are those of all devices inside steps, `wall_ps` the wall time of all steps summed over devices.
    """

    def took(holds: Callable[[OpFacts], object]) -> int:
        return int(ops.step_ps[ops.where(holds)].sum())

    own = np.flatnonzero(ops.kind != _CONTAINER)
    categories = _sums(ops.by_fact(lambda facts: facts.label), ops.step_ps, own)
    kernels = _sums(
        ops.by_fact(lambda facts: facts.kernel),
        ops.step_ps,
        np.flatnonzero(ops.where(lambda facts: facts.kernel)),
    )
    mfu, note = _mfu(flops, peak_flops, wall_ps, kernels_without_flops(ops))
    matmul = took(lambda facts: facts.matmul)
    typed = ops.where(lambda facts: facts.matmul_type).any()
    laid_out = ops.where(lambda facts: facts.padded).any()
    return Compute(
        mfu=mfu,
        mfu_note=note,
        flops=flops,
        by_category=sorted(categories.items(), key=lambda each: -each[1]),
        float32_matmul_ps=took(lambda facts: facts.matmul_type == FLOAT32) if typed or not matmul else None,
        matmul_ps=matmul,
        layout_copy_ps=took(lambda facts: facts.layout_copy),
        padded_ps=took(lambda facts: (padding(facts) or 0.0) >= PADDED_FROM) if laid_out else None,
        kernels=kernels,
    )


def _sums(names: list[str], values: Int64, rows: Int64) -> dict[str, float]:
    """The sum of the values of each name, in those rows."""
    of, found = numbered(names[row] for row in rows.tolist())
    return dict(zip(found, np.bincount(of, values[rows], len(found)).tolist(), strict=True))


def kernels_without_flops(ops: OpTotals) -> list[str]:
    """Kernels of which nothing states FLOPs, so that all sums of FLOPs are less than what was computed."""
    return sorted(
        {ops.facts[at].kernel for at in set(ops.fact[ops.flops == 0].tolist()) if ops.facts[at].kernel}
    )


def _over(amount: Float64, other: Float64, known: Bool) -> Float64:
    """The ratio, NaN where it is not known."""
    found = np.full(len(amount), np.nan)
    np.divide(amount, other, out=found, where=known)
    return found


def _checked(
    values: Float64, at_most: float | None, words: Callable[[int], tuple[str, str, Callable[[float], str]]]
) -> tuple[Float64, dict[int, str]]:
    """`checked` of each value but NaN, and notes by row; `words` gives of a row what it is, its bound and its text."""
    found, notes = values.copy(), {}
    beyond = values < 0.0 if at_most is None else (values < 0.0) | (values > at_most)
    for row in np.flatnonzero(beyond).tolist():
        what, bound, show = words(row)
        each = checked(float(values[row]), what, at_most=at_most, bound=bound, show=show, slack=CLOCK_SLACK)
        found[row] = np.nan if each.value is None else each.value
        if each.note:
            notes[row] = each.note
    return found, notes


def _per_second(value: float) -> str:
    return f"{value:.3g} per second"


def _mfu(flops: int, peak: float | None, wall_ps: int, unknown: list[str]) -> tuple[float | None, str]:
    if not flops:
        also = "" if peak else ", nor the device's peak FLOP/s"
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
        states = "states" if len(unknown) == 1 else "state"
        note = f"a lower bound: {listed(unknown, KERNELS_NAMED)} {states} no FLOPs; {note}"
    return found.value, note


def _rooflines(
    flops: Float64,
    moved: Float64,
    seconds: Float64,
    known: Bool,
    peak_flops: float | None,
    peak_bytes: float | None,
) -> tuple[list[str], Float64, dict[int, str]]:
    """Of each op the side of the roofline it is on, the share of the roof that it reaches, and notes by row."""
    if not peak_flops or not peak_bytes:
        return [""] * len(flops), np.full(len(flops), np.nan), {}
    compute, memory = flops / peak_flops, moved / peak_bytes
    sides = ["compute" if each else "memory" for each in (compute >= memory).tolist()]
    share, notes = _checked(
        _over(np.maximum(compute, memory), seconds, known),
        1.0,
        lambda row: ("its speed", f"what the chip's {sides[row]} allows", _of_roof),
    )
    told = ~np.isnan(share)
    return [side if each else "" for side, each in zip(sides, told.tolist(), strict=True)], share, notes


def _of_roof(value: float) -> str:
    return f"{format_share(value)} of its roofline"
