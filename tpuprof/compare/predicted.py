"""A comparison of two predicted runs: one prediction each, repeated, so that steps have no noise and no bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tpuprof.compare.noise import Change
from tpuprof.units import format_ms

if TYPE_CHECKING:
    from tpuprof.compare.diff import PartChange

LABEL = "Predicted, not measured: "
NOTE = (
    "Both runs are predictions of `tpuprof preflight`: their steps are one estimate repeated, so there are no bounds. "
    "The compiler's estimate of one op can be off by a factor of three; equal programs give equal estimates."
)


def without_bounds(change: Change) -> Change:
    """The same change, with no statement about noise."""
    return replace(change, low=None, high=None)


def without_bounds_in(parts: list[PartChange], least_ms: float) -> list[PartChange]:
    """Parts without bounds; one counts as changed from `least_ms` on."""
    return [
        replace(row, change=without_bounds(row.change), changed=abs(row.change.delta) >= least_ms > 0)
        for row in parts
    ]


def sentence(outcome: str, change: Change, threshold: float) -> str:
    """What two predictions say of each other."""
    times = f"{format_ms(change.base)} to {format_ms(change.candidate)} per step"
    ratio = f"{change.ratio * 100:+.1f} %".replace("-", "−") if change.ratio else "no change"
    word = {"worse": "slower", "better": "faster"}.get(outcome, f"less than {threshold:.0%} apart")
    return f"{LABEL}{word}: {times} ({ratio})."
