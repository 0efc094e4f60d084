"""The comparisons that lead to a verdict, noted where they are made: what was compared, with what, and what follows."""

from __future__ import annotations

from tpuprof.records import record

SHARE, MS, STEPS, YES_OR_NO = "share of the step", "ms per step", "share of the steps", "yes or no"
SHARE_OF_TIME = "share of the time after the capture"


@record(frozen=True)
class Decision:
    """One comparison: it holds where `value` reaches `threshold`, both in `unit`; None where there are no numbers.

    `follows` is what follows from the answer it got, `otherwise` what the other answer would have led to.
    """

    question: str
    value: float | None
    threshold: float | None
    unit: str
    holds: bool
    follows: str
    otherwise: str


class Decisions:
    """Makes comparisons and keeps them, in the order they are made in."""

    def __init__(self) -> None:
        self.made: list[Decision] = []

    def at_least(
        self, question: str, value: float, threshold: float, unit: str, *, yes: str, no: str
    ) -> bool:
        """Whether a value reaches a threshold; `yes` and `no` say what follows."""
        holds = value >= threshold
        self.made.append(
            Decision(question, value, threshold, unit, holds, *((yes, no) if holds else (no, yes)))
        )
        return holds

    def is_so(self, question: str, holds: bool, *, yes: str, no: str) -> bool:
        """A question without a number."""
        self.made.append(
            Decision(question, None, None, YES_OR_NO, holds, *((yes, no) if holds else (no, yes)))
        )
        return holds
