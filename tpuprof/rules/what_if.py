"""The step time with several findings fixed at once: one replay with all their causes removed."""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof.errors import Code, TpuprofError
from tpuprof.records import record
from tpuprof.report.schema import Savings
from tpuprof.rules.base import FAILED, Outcome
from tpuprof.rules.pricing import COUNTERFACTUAL, Pricing, bounded
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change


@record(frozen=True)
class WhatIf:
    """Step time measured, and with the rules' causes removed from `low` to `high`, in ms per step."""

    rules: list[str]
    measured_ms: float
    low_ms: float
    high_ms: float
    skipped: list[str]


def what_if(signals: Signals, rule_ids: Sequence[str]) -> WhatIf:
    """Replay with the causes of all these rules removed; rules that did not fail are skipped, with the reason.

    Savings of single rules overlap, so they are not added up; together they are at most what all the causes take.
    Raises `TpuprofError` (`usage`) for an unknown rule, and where the replay does not reproduce the measured step time.
    """
    pricing = Pricing(signals)
    least, most, skipped, used, flat_low, flat_high, cause = Change(), Change(), [], [], 0.0, 0.0, 0.0
    for rule_id in rule_ids:
        outcome = outcome_of(find_rule(rule_id), signals)
        price = outcome.price
        reason = _left_out(outcome)
        if reason or price is None:
            skipped.append(f"{rule_id}: {reason}")
            continue
        used.append(rule_id)
        cause += outcome.share
        if price.savings is not None:
            flat_low, flat_high = flat_low + price.savings.low, flat_high + price.savings.high
        elif price.most is not None:
            least, most = least.and_also(price.least or price.most), most.and_also(price.most)
    simulator = pricing.simulator
    if isinstance(simulator, str):
        raise TpuprofError(
            Code.USAGE, f"--what-if: {simulator}.", "Run `tpuprof analyze` without it for what is known."
        )
    measured = simulator.measured_ms
    gains = sorted(measured - simulator.step_ms(change) for change in (least, most))
    together = bounded(
        Savings(gains[0] + flat_low, gains[1] + flat_high, COUNTERFACTUAL), measured, cause if used else None
    )
    return WhatIf(used, measured, measured - together.high, measured - together.low, skipped)


def _left_out(outcome: Outcome) -> str:
    """Why a rule takes no part in the replay; empty where it does."""
    price = outcome.price
    if outcome.status != FAILED:
        status = outcome.status.replace("_", " ")
        return f"{status}, {outcome.reason}" if outcome.reason else status
    if price is None:
        return f"failed, {outcome.reason}" if outcome.reason else "failed, without a price"
    if price.savings is not None and price.savings.per != "step":
        return f"failed, and its fix saves time of each {price.savings.per}, not of a step"
    return ""
