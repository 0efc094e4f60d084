"""How the verdict came about, and what to measure next, as rows of the Report."""

from __future__ import annotations

from dataclasses import field

from tpuprof.records import record

# What a measurement decides, where that is no rule.
VERDICT = "verdict"


@record(frozen=True)
class DecisionRow:
    """One comparison that led to the verdict; it holds where `value` reaches `threshold`, both in `unit`.

    `unit` is "share of the step", "ms per step", or "yes or no" for a question without numbers (None). `follows` is
    what followed, `changes_when` what would have changed it, and to what.
    """

    question: str
    value: float | None
    threshold: float | None
    unit: str
    holds: bool
    follows: str
    changes_when: str


@record(frozen=True)
class NextMeasurement:
    """Something that this run cannot tell: the reason, the command that decides it, and what of the report it decides.

    `command` is empty where no command of this program can, and `advice` says what can. `decides` are ids of rules, or
    names of figures ("verdict", "MFU").
    """

    reason: str
    command: str
    advice: str
    decides: list[str] = field(default_factory=list)
