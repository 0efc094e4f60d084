"""A finding whose cost few of the captured steps hold: it says so, and what a single step held may not come back."""

from __future__ import annotations

from dataclasses import replace

from tpuprof.model.in_few_steps import few_of, said_of_few
from tpuprof.rules.base import FAILED, Outcome, Price
from tpuprof.signals import Signals, Unavailable
from tpuprof.simulate.change import Change
from tpuprof.units import counted

ONCE = "one captured step holds nearly all of it, so whether it comes back is unknown: capture more steps (`--steps`)"
# Steps that must hold a cost for it to be known how often it comes (steps): of three, one more or less is a third.
OFTEN_FROM_STEPS = 4
ROUGHLY = (
    "{steps} hold nearly all of it, so how often it comes, and what it costs per step, is known only roughly: capture "
    "more steps (`--steps`)"
)
_OF_EACH, _PER = " of each step", " per step"


def of_few_steps(outcome: Outcome, signals: Signals, *, comes_back: bool = False) -> Outcome:
    """The outcome in words that are true of its steps; of a cost in one step it is little sure, and so is its price.

    The cost is the host's time that the price takes out: an outcome without such a price stays as it is. `comes_back`
    says that the rule itself has looked whether the cost does.
    """
    parts = _parts(outcome.price)
    if outcome.status != FAILED or not parts:
        return outcome
    try:
        costs = signals.costs_of(parts)
    except Unavailable:
        return outcome
    few = said_of_few(costs)
    if not few:
        return outcome
    if outcome.at_stake:
        outcome = replace(outcome, at_stake=_title(outcome.at_stake, few))
    else:
        outcome = replace(outcome, title=_title(outcome.title, few))
    count = few_of(costs)
    if comes_back or count >= OFTEN_FROM_STEPS or outcome.price is None:
        return outcome
    if count > 1:
        less = "medium" if outcome.confidence == "high" else outcome.confidence
        reason = ROUGHLY.format(steps=counted(count, "captured step"))
        return replace(outcome, confidence=less, reason=outcome.reason or reason)
    price = replace(outcome.price, least=Change())
    return replace(outcome, price=price, confidence="low", reason=outcome.reason or ONCE)


def _parts(price: Price | None) -> set[str]:
    """Parts of the host's time that are the cost, empty where a price takes out something else as well."""
    changes = [each for each in (price.least, price.most) if each is not None] if price is not None else []
    host = {name: left for each in changes for name, left in each.host.items()}
    if any(each != Change(host=each.host, device=each.device) for each in changes):
        return set()
    return {name for name, left in host.items() if left < 1}


def _title(title: str, few: str) -> str:
    if _OF_EACH in title:
        return title.replace(_OF_EACH, f" of the steps' time ({few})", 1)
    return title.replace(_PER, f"{_PER} ({few})", 1)
