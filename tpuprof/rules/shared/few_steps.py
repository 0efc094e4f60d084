"""A finding whose cost few of the captured steps hold: it says so, and what a single step held may not come back."""

from __future__ import annotations

from dataclasses import replace

from tpuprof import parts as part
from tpuprof.model.in_few_steps import few_of, said_of_few, said_of_mean
from tpuprof.rules.base import FAILED, Outcome, Price
from tpuprof.rules.shared.step_shares import of_the_mean
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
# Waits of the device that a price may take out.
_WAITS = (part.COLLECTIVE, part.OFFLOAD)
_PER = " per step"


def of_few_steps(outcome: Outcome, signals: Signals, *, comes_back: bool = False, waits: str = "") -> Outcome:
    """The outcome in words that are true of its steps; of a cost in one step it is little sure, and so is its price.

    The cost is the host's time, or the device's waits, that the price takes out; without a price the part of the
    breakdown that the rule is about (`waits`). An outcome without either stays as it is. `comes_back` says that the
    rule itself has looked whether the cost does.
    """
    parts = _parts(outcome.price) if outcome.price is not None or not waits else {waits}
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


def uneven(signals: Signals) -> bool:
    """Whether few steps are so much longer than the others, for idle time, that a mean is of no single step."""
    try:
        steps, seen = signals.steps, signals.sees_device
    except Unavailable:
        return False
    busy = sum((steps.parts.get(name, 0.0) for name in part.DEVICE_PARTS), 0.0 * steps.wall_ms)
    return seen and bool(said_of_mean(steps.wall_ms.tolist(), (steps.wall_ms - busy).tolist()))


def _parts(price: Price | None) -> set[str]:
    """Parts of the host's time that are the cost, or waits of the device; empty where a price takes out more."""
    changes = [each for each in (price.least, price.most) if each is not None] if price is not None else []
    host = {name: left for each in changes for name, left in each.host.items()}
    if any(each != Change(host=each.host, device=each.device) for each in changes):
        return set()
    found = {name for name, left in host.items() if left < 1}
    device = {name: left for each in changes for name, left in each.device.items()}
    return found or {name for name, left in device.items() if left < 1 and name in _WAITS}


def _title(title: str, few: str) -> str:
    of_all = of_the_mean(title, f" ({few})")
    return of_all if of_all != title else title.replace(_PER, f"{_PER} ({few})", 1)
