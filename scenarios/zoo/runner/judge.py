"""Compares a report with the truth: right, honestly undecided, wrong, or not captured."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from runner.truth import Truth
from tpuprof.units import format_ms

RIGHT, UNDECIDED, WRONG, NOT_CAPTURED = "right", "undecided", "wrong", "not captured"
# A reported step may differ from the program's own clock by this factor: captured steps are slower, and other work
# shares the machine. A step that is counted twice, or two that are counted as one, are off by two.
STEP_FACTOR_AT_MOST = 1.5
_HONEST = re.compile(r"undecided|cannot be distinguished|either .* or ", re.IGNORECASE)


@dataclass
class Answer:
    """What tpuprof said of a run, as far as the zoo looks at it. Times in ms."""

    bound: str = ""
    share: float = 0.0
    sentence: str = ""
    first: str = ""
    first_title: str = ""
    confidence: str = ""
    failed: list[str] = field(default_factory=list)
    steps: int = 0
    method: str = ""
    step_confidence: str = ""
    median_ms: float | None = None
    breakdown: dict[str, float] = field(default_factory=dict)


def answer_of(report: dict[str, Any]) -> Answer:
    """The part of a report that is judged."""
    failed = [each for each in report["findings"] if each["status"] == "failed"]
    verdict, steps = report["verdict"], report["steps"]
    first = failed[0] if failed else {"rule": "", "title": "", "confidence": ""}
    parts = {name: value["ms_per_step"] for name, value in report["breakdown"].items()}
    return Answer(
        verdict["bound"], verdict["share"] or 0.0, verdict["sentence"],
        first["rule"], first["title"], first["confidence"] or "", [each["rule"] for each in failed],
        steps["count"], steps["method"], steps["confidence"], steps["median_ms"],
        {name: round(ms, 3) for name, ms in parts.items() if ms},
    )  # fmt: skip


def judge(truth: Truth, answer: Answer | None, messages: str) -> tuple[str, list[str]]:
    """One word, and what is wrong in detail."""
    if answer is None:
        return _not_captured(truth, messages)
    if not truth.captured:
        return WRONG, ["a capture was made where none is possible"]
    if truth.undecided and _honest(truth, answer):
        return UNDECIDED, []
    faults = []
    if answer.bound not in truth.verdicts:
        faults.append(f"verdict {answer.bound}, not {' or '.join(truth.verdicts)}")
    elif truth.names and not _named(truth.names, answer):
        faults.append(f"the verdict does not name {' or '.join(truth.names)}")
    if answer.first not in truth.first:
        sure = " with high confidence" if answer.confidence == "high" else ""
        faults.append(f"first finding {answer.first or 'none'}{sure}, not {_or(truth.first)}")
    return (WRONG, faults) if faults else (RIGHT, [])


def step_fault(answer: Answer | None, own_ms: float | None, captured_ms: float | None = None) -> str:
    """What is wrong with the reported step time against the program's own clock; empty if nothing is.

    `captured_ms` is the mean of the captured steps by that clock, where it is known: other work on the machine may make
    them longer than the others, and steps that run ahead of the device are short and long in turn.
    """
    if answer is None or own_ms is None:
        return ""
    if answer.median_ms is None:
        return "no step time is reported"
    if _near(answer.median_ms, own_ms):
        return ""
    if captured_ms is not None and _near(sum(answer.breakdown.values()), captured_ms):
        return ""
    return f"a step is said to take {format_ms(answer.median_ms)}, by the program's own clock {format_ms(own_ms)}"


def _near(reported: float, own: float) -> bool:
    return own > 0 and 1 / STEP_FACTOR_AT_MOST <= reported / own <= STEP_FACTOR_AT_MOST


def _not_captured(truth: Truth, messages: str) -> tuple[str, list[str]]:
    if truth.captured and not truth.says:
        return NOT_CAPTURED, ["not captured"]
    if re.search(truth.says, messages):
        return RIGHT, []
    return WRONG, [f"tpuprof does not say {truth.says!r}"]


def _honest(truth: Truth, answer: Answer) -> bool:
    undecided = answer.bound in ("undecided", "unknown") or bool(_HONEST.search(answer.sentence))
    named = any(re.search(each, answer.sentence, re.IGNORECASE) for each in truth.undecided)
    return undecided and named and answer.confidence != "high"


def _named(patterns: list[str], answer: Answer) -> bool:
    text = f"{answer.sentence}\n{answer.first_title}"
    return any(re.search(each, text, re.IGNORECASE) for each in patterns)


def _or(first: list[str]) -> str:
    return " or ".join(each or "none" for each in first)
