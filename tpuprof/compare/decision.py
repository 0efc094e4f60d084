"""What a comparison of two runs comes to, and what it rests on: steps, compiles, or nothing that can be judged."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tpuprof.compare.noise import MIN_STEPS, Change

# What can decide.
STEPS, COMPILES, MEAN = "steps", "compiles", "mean step"


class Outcome(StrEnum):
    """What the comparison comes to."""

    WORSE = "worse"
    BETTER = "better"
    SAME = "no difference beyond noise"
    UNFAIR = "not comparable"
    UNKNOWN = "cannot be judged"


@dataclass(frozen=True)
class CompileChange:
    """Compiles inside the captured steps, and whether their rate differs."""

    base: int
    base_steps: int
    candidate: int
    candidate_steps: int
    outcome: Outcome


@dataclass(frozen=True)
class Decision:
    """The outcome, the change that it rests on, and in words what decided or why nothing can."""

    outcome: Outcome
    change: Change
    by: str


def decide(steady: list[Change], mean: Change, compiles: CompileChange, threshold: float) -> Decision:
    """The outcome, and what it rests on.

    Steps without their compiles decide, the usual one before the mean; then compiles do. Where those two disagree,
    the mean step with all in it decides. Where the usual step seems changed and its bounds are too wide to say so,
    nothing can be judged.
    """
    if min(compiles.base_steps, compiles.candidate_steps) < MIN_STEPS:
        return Decision(Outcome.UNKNOWN, mean, f"fewer than {MIN_STEPS} steps say nothing of their spread")
    times = next((each for each in steady if beyond_noise(each, threshold)), None)
    if times is None and compiles.outcome is Outcome.SAME:
        return _by_usual_step(next((each for each in steady if each.low is not None), steady[-1]), threshold)
    if times is None:
        return Decision(compiles.outcome, mean, COMPILES)
    outcome = Outcome.WORSE if times.delta > 0 else Outcome.BETTER
    if compiles.outcome in (Outcome.SAME, outcome):
        return Decision(outcome, times, STEPS)
    if not mean.beyond_noise:
        against = (
            "steps and compiles changed in opposite directions, and the mean step's change could be chance"
        )
        return Decision(Outcome.UNKNOWN, mean, against)
    return Decision(Outcome.WORSE if mean.delta > 0 else Outcome.BETTER, mean, MEAN)


def _by_usual_step(usual: Change, threshold: float) -> Decision:
    """Of a usual step that is not surely changed: whether it seems to be."""
    if not large_enough(usual, threshold):
        return Decision(Outcome.SAME, usual, STEPS)
    few = "the captures have too few steps, or too uneven ones"
    return Decision(Outcome.UNKNOWN, usual, f"the change could be chance: {few}")


def large_enough(change: Change, threshold: float) -> bool:
    """Whether a change is large enough to count, were it certain: a share of the faster run, so both ways are alike."""
    smaller = min(change.base, change.candidate)
    return smaller > 0 and abs(change.delta) / smaller >= threshold


def beyond_noise(change: Change, threshold: float) -> bool:
    """Whether a change of step time is beyond noise: its bounds exclude zero, and it is not too small to trust."""
    return change.beyond_noise and large_enough(change, threshold)
