"""Two steps side by side: what each part of the breakdown took in both, and which grew most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuprof.report.schema import StepRow


@dataclass(frozen=True)
class PartChange:
    """One part in both steps and the difference (ms), the second less the first."""

    name: str
    first_ms: float
    second_ms: float
    difference_ms: float


@dataclass(frozen=True)
class StepPair:
    """Parts that either step has, in the order of the breakdown; `difference_ms` is of the wall times.

    `grown` is the part that explains most of the difference, None where the steps take equally long.
    """

    parts: list[PartChange]
    difference_ms: float
    grown: PartChange | None


def compare_steps(first: StepRow, second: StepRow, order: list[str]) -> StepPair:
    """Put two steps side by side; `order` names the parts of the breakdown."""
    one, other = first.breakdown_ms, second.breakdown_ms
    names = [name for name in dict.fromkeys([*order, *one, *other]) if one.get(name) or other.get(name)]
    parts = [
        PartChange(
            name,
            one.get(name, 0.0),
            other.get(name, 0.0),
            other.get(name, 0.0) - one.get(name, 0.0),
        )
        for name in names
    ]
    change = second.wall_ms - first.wall_ms
    sign = 1 if change > 0 else -1
    grown = max(parts, key=lambda each: sign * each.difference_ms, default=None) if change else None
    return StepPair(parts, change, grown)


def usual_and_slowest(steps: list[StepRow], median_ms: float | None) -> tuple[int, int]:
    """Positions of the step nearest the median (ms) and of the slowest, of one step at least."""
    rows = range(len(steps))
    usual = min(rows, key=lambda row: abs(steps[row].wall_ms - (median_ms or 0.0)))
    return usual, max(rows, key=lambda row: steps[row].wall_ms)
