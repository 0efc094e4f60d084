"""A verdict that names what a cause costs is weaker where the price of its fix is unknown, or begins at nothing.

Where the price is sure and far below that cost, or above it, the verdict states both.

Time that host and device lose in turns is what the cause costs at most. Whether a step is shorter without it only a
price says: a LoRA loop that read its loss every ten steps was "Sync-bound, up to 13 %", and took as long without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tpuprof.model.decisions import Decisions
from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.model.verdict import bound_of
from tpuprof.model.verdict_words import spoken
from tpuprof.parts import within_sentence, word_of
from tpuprof.report.schema import Finding, Savings, Verdict
from tpuprof.rules.base import FAILED, PASSED, UNAVAILABLE
from tpuprof.rules.pricing import COUNTERFACTUAL, NOTED_FROM
from tpuprof.rules.thresholds import FAR_BELOW
from tpuprof.units import format_ms, format_ms_range, format_share

# The rules that price what a verdict's word costs. Verdicts of other words state idle time, which is measured.
PRICED_BY = {"sync": ("device-to-host-sync",), "fallback": ("aten-fallback", "boolean-mask")}
# Least share of a step that the price of a sure cause begins at (share): less is what any two captures differ by.
BEGINS_FROM_SHARE = 0.01
# Least share of a step that another cause's price begins at for the verdict to name it beside a doubtful one (share):
# half of what a rule needs to fail. A judgement.
SURER_FROM_SHARE = 0.05
BESIDE = " Beside it, {title}; whether a step is shorter without that is doubtful."
# Categories of findings that are surer than turns: what a thread does or waits for without handing a program over, and
# what the device computes.
SURER_CATEGORIES = ("host", "input", "compute")
SURER = " Another cause is surer to cost time ({range} per step): {title}."
_BOUND = "-bound: "
MAY_BE_NOTHING = " Without {what}, a step may take as long, or be {shorter}. The device is busy for {busy}."
# How much shorter: as much as the verdict says of the cause, or so much. A replay gives a number of its own, less than
# what is lost in turns: not all of that has to come back.
THAT_MUCH = "that much shorter"
UP_TO = "up to {high} shorter"
BY_REPLAY = " by a replay of the steps"
FAR_LESS = " A replay without {what} makes a step only {range} shorter."
MORE = " Without {what}, a step may be {range} shorter, which is more than {cost}{why}."
# What a step is without, by the verdict's word; of several reads see `read_words`.
_WITHOUT = {"sync": "the read", "fallback": "these ops"}
_SEVERAL = {"the read": "the reads"}
# Why a price is larger than the time that the verdict states.
AT_ONCE = ": host and device would then work at the same time"
UNPRICED = " No price confirms it: {reason}."
NO_PRICE = "nothing in this capture tells"


def _without(verdict: Verdict) -> str:
    """What a step is without."""
    from tpuprof.analysis.sections.read_words import says_several

    what = _WITHOUT[verdict.bound]
    return _SEVERAL.get(what, what) if says_several(verdict.sentence) else what


def weakened(verdict: Verdict, findings: Sequence[Finding], times: StepTimes) -> Verdict:
    """The verdict, with "Perhaps" and the doubt where no rule confirms that its cause costs time."""
    wanted = PRICED_BY.get(verdict.bound, ())
    about = [
        each for each in findings if each.rule in wanted and each.status in (FAILED, PASSED, UNAVAILABLE)
    ]
    failed = [each for each in about if each.status == FAILED]
    # Where the trace shows no device, the sentence says already that the cost is unknown.
    if not about or not times.seen:
        return verdict
    sure = [each.savings for each in failed if each.savings is not None and _is_sure(each.savings, times)]
    if sure:
        beside = _far_less(verdict, sure, times) or _more(verdict, sure, times)
        return replace(verdict, sentence=verdict.sentence + beside)
    surer = _surer(findings, wanted, times)
    return replace(
        verdict, sentence=perhaps(verdict.sentence) + _doubt(verdict, failed or about, times) + surer
    )


def surer_bound(
    verdict: Verdict, findings: Sequence[Finding], times: StepTimes, why: Decisions | None = None
) -> Bound | None:
    """What holds the step back beside turns whose cost is doubtful, where the first finding is on it and sure.

    Three verdicts named reads that cost nothing, and the first finding of each the Python that did. Tracing hides
    behind a device that works on, so that it is no surer than the turns. None where these stay the verdict.
    """
    wanted = PRICED_BY.get(verdict.bound, ())
    first = next((each for each in findings if each.status == FAILED), None)
    if verdict.bound != "sync" or not times.seen or first is None or not _saves_surely(first, wanted, times):
        return None
    priced = [each.savings for each in findings if each.rule in wanted and each.savings is not None]
    if any(_is_sure(each, times) for each in priced):
        return None
    # Without blocking reads there are no turns, and nothing that the device does again.
    other = bound_of(replace(times, reads_share=0.0, again=0.0, for_reads=0.0))
    surer = (why or Decisions()).is_so(
        f"the price of the reads begins at nothing, and that of the first finding, on {spoken(other)}, does not",
        _category(other) == first.category in SURER_CATEGORIES,
        yes="the verdict is on the surer of the two, and names the other",
        no="the verdict stays, and is doubtful",
    )
    return other if surer else None


def _category(bound: Bound) -> str:
    """That of the findings on what holds a step back; a device can be bound by more than what it computes."""
    return "compute" if bound.word == "device" else word_of(bound.word).category


def said_beside(verdict: Verdict, findings: Sequence[Finding]) -> str:
    """What a verdict on a surer cause says of the doubtful one; empty where no rule fails on that."""
    wanted = PRICED_BY.get(verdict.bound, ())
    found = next((each for each in findings if each.rule in wanted and each.status == FAILED), None)
    return BESIDE.format(title=within_sentence(found.title)) if found is not None else ""


def _saves_surely(finding: Finding, doubted: tuple[str, ...], times: StepTimes) -> bool:
    """Whether the price of a finding that is on another cause is sure to begin at enough of the step."""
    return (
        finding.status == FAILED
        and finding.rule not in doubted
        and finding.confidence != "low"
        and finding.savings is not None
        and finding.savings.per == "step"
        and finding.savings.low >= SURER_FROM_SHARE * times.wall
    )


def _surer(findings: Sequence[Finding], doubted: tuple[str, ...], times: StepTimes) -> str:
    """Another cause whose fix is sure to save time, where the verdict's is not; empty where there is none.

    The one that saves most at least.
    """
    sure = [
        (each.savings, each)
        for each in findings
        if each.savings is not None and _saves_surely(each, doubted, times)
    ]
    if not sure:
        return ""
    savings, best = max(sure, key=lambda each: each[0].low)
    return SURER.format(title=within_sentence(best.title), range=format_ms_range(savings.low, savings.high))


def _is_sure(savings: Savings, times: StepTimes) -> bool:
    return savings.low >= BEGINS_FROM_SHARE * times.wall


def _far_less(verdict: Verdict, sure: list[Savings], times: StepTimes) -> str:
    """What a step saves by the price, where that is far below what the verdict says of the cause; else empty."""
    most = max(sure, key=lambda each: each.high)
    if most.method != COUNTERFACTUAL or most.high >= FAR_BELOW * verdict.share * times.wall:
        return ""
    saved = format_ms_range(most.low, most.high)
    return FAR_LESS.format(what=_without(verdict), range=saved)


def _more(verdict: Verdict, sure: list[Savings], times: StepTimes) -> str:
    """What a step saves by the price, where that may be more than the verdict says of the cause; else empty."""
    most = max(sure, key=lambda each: each.high)
    cost = verdict.share * times.wall
    if most.high <= NOTED_FROM * cost:
        return ""
    saved = (
        format_ms_range(most.low, most.high)
        if most.low > NOTED_FROM * cost
        else f"up to {format_ms(most.high)}"
    )
    return MORE.format(what=_without(verdict), range=saved, cost=format_ms(cost), why=AT_ONCE)


def _doubt(verdict: Verdict, about: list[Finding], times: StepTimes) -> str:
    prices = [each.savings for each in about if each.savings is not None]
    if prices:
        busy = format_share(times.busy / times.wall)
        shorter = _how_much(max(prices, key=lambda each: each.high), verdict.share * times.wall)
        return MAY_BE_NOTHING.format(what=_without(verdict), shorter=shorter, busy=busy)
    reason = next((each.reason for each in about if each.reason), NO_PRICE)
    return UNPRICED.format(reason=reason.removeprefix("it cannot be priced: "))


def _how_much(price: Savings, cost: float) -> str:
    """How much shorter a step may be by the price, beside what the verdict says of the cause (ms)."""
    if max(price.high, cost) < NOTED_FROM * min(price.high, cost):
        return THAT_MUCH
    said = UP_TO.format(high=format_ms(price.high))
    if price.high > cost:
        return said + AT_ONCE
    return said + (BY_REPLAY if price.method == COUNTERFACTUAL else "")


def perhaps(sentence: str) -> str:
    """`Sync-bound: …` as `Perhaps sync-bound: …`, also behind another head, and within a sentence."""
    at = sentence.find(_BOUND)
    if at < 0:
        return sentence
    begin = sentence.rfind(" ", 0, at) + 1
    perhaps = "perhaps" if sentence[begin].islower() else "Perhaps"
    return f"{sentence[:begin]}{perhaps} {sentence[begin].lower()}{sentence[begin + 1 :]}"
