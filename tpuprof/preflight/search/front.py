"""What was found at one point of a search, and which points nothing beats: the Pareto front."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tpuprof.preflight.search.choices import Point

# What came of a point beside a compile's own status (see `Compiled`).
COMPILED, TOO_LARGE, FAILED, DROPPED, SAME = "compiled", "does-not-fit", "failed", "dropped", "same-program"
OTHER_WORK = "other-work"
# Differences below which two points count as equal: predicted times differ by more than this from one order of
# instructions to another; compile times differ by more from one run to the next on a busy machine (both as ratios).
STEP_GRAIN, COMPILE_GRAIN = 1.005, 1.25
# And of memory, as a share of what the chip has.
MEMORY_GRAIN = 0.01


@dataclass
class Result:
    """One point. Times are ms for one step (`compile_s` in s), memory bytes on one device; None is unavailable.

    `samples` is what one step trains, `compiles` how many programs the compiler was asked for and did not have in its
    cache. `exposed_ms` is collectives and copies in the step, priced by links; `guessed_ms` what the compiler gave no
    estimate for. `products` are the kinds of matrix products, `programs` the hashes of the graphs, `flops` those of one
    step's products on all devices. `outcome` is the
    whole prediction.
    """

    point: Point
    status: str
    step_ms: float | None = None
    hbm: int | None = None
    capacity: int = 0
    compile_s: float | None = None
    samples: float | None = None
    compiles: int = 0
    exposed_ms: float = 0.0
    guessed_ms: float = 0.0
    why: str = ""
    programs: tuple[str, ...] = ()
    products: dict[str, int] = field(default_factory=dict)
    flops: int | None = None
    collectives: bool = False
    outcome: Any = None

    @property
    def fits(self) -> bool:
        """Whether it can be compared: it compiled, fits and trains."""
        return self.status == COMPILED and self.step_ms is not None and self.hbm is not None

    @property
    def cost_ms(self) -> float:
        """Predicted step time per sample where samples are known, else per step; infinite where it does not fit."""
        if not self.fits or self.step_ms is None:
            return math.inf
        return self.step_ms / (self.samples or 1.0)

    @property
    def grained(self) -> tuple[int, int, int]:
        """Step time, memory and compile time in steps of what counts as different."""
        return (
            _grains(self.cost_ms, STEP_GRAIN),
            round((self.hbm or 0) / (MEMORY_GRAIN * (self.capacity or 1))),
            _grains(self.compile_s or 0.0, COMPILE_GRAIN),
        )


def _grains(value: float, ratio: float) -> int:
    return round(math.log(value) / math.log(ratio)) if value > 0 else -(10**9)


def comparable(results: list[Result]) -> list[Result]:
    """The results that fit, by sample where samples are known: a time per step is not compared with one per sample."""
    usable = [each for each in results if each.fits]
    known = [each for each in usable if each.samples is not None]
    return known or usable


def front(results: list[Result]) -> list[Result]:
    """The results that no other beats in step time, memory and compile time; fastest first.

    Of those that are equal in all three the one with the fewest changes stays.
    """
    usable = sorted(comparable(results), key=_simple_first)
    kept: dict[tuple[int, int, int], Result] = {}
    for each in usable:
        kept.setdefault(each.grained, each)
    best = [
        each
        for each in kept.values()
        if not any(other is not each and _beats(other.grained, each.grained) for other in kept.values())
    ]
    return sorted(best, key=lambda each: (each.cost_ms, _simple_first(each)))


def _simple_first(each: Result) -> tuple[int, float, str, int, float]:
    # Where nothing else differs, memory and compile time decide by less than the front looks at, so that the order in
    # which points were tried does not.
    return len(each.point), each.cost_ms, repr(each.point), each.hbm or 0, each.compile_s or 0.0


def _beats(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return one != other and all(mine <= theirs for mine, theirs in zip(one, other, strict=True))
