"""The step time with several findings fixed at once: one replay with all their causes removed."""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof.errors import Code, TpuprofError
from tpuprof.records import dataclass
from tpuprof.rules.base import FAILED
from tpuprof.rules.pricing import Pricing
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change


@dataclass(frozen=True)
class WhatIf:
    """Step time measured, and with the rules' causes removed from `low` to `high`, in ms per step."""

    rules: list[str]
    measured_ms: float
    low_ms: float
    high_ms: float
    skipped: list[str]


def what_if(signals: Signals, rule_ids: Sequence[str]) -> WhatIf:
    """Replay with the causes of all these rules removed; rules that did not fail are skipped, with the reason.

    Savings of single rules overlap, so they are not added up. Raises `TpuprofError` (`usage`) for an unknown rule,
    and where the replay does not reproduce the measured step time.
    """
    pricing = Pricing(signals)
    least, most, skipped, used, flat_low, flat_high = Change(), Change(), [], [], 0.0, 0.0
    for rule_id in rule_ids:
        outcome = outcome_of(find_rule(rule_id), signals)
        price = outcome.price
        if outcome.status != FAILED or price is None:
            skipped.append(
                f"{rule_id}: {outcome.status.replace('_', ' ')}"
                + (f", {outcome.reason}" if outcome.reason else "")
            )
            continue
        used.append(rule_id)
        if price.savings is not None:
            flat_low, flat_high = flat_low + price.savings.low, flat_high + price.savings.high
        if price.most is not None:
            least, most = least.and_also(price.least or price.most), most.and_also(price.most)
    simulator = pricing.simulator
    if isinstance(simulator, str):
        raise TpuprofError(
            Code.USAGE, f"--what-if: {simulator}.", "Run `tpuprof analyze` without it for what is known."
        )
    times = sorted(simulator.step_ms(change) for change in (least, most))
    measured = simulator.measured_ms
    return WhatIf(
        used,
        measured,
        max(min(times[0], measured) - flat_high, 0.0),
        max(min(times[1], measured) - flat_low, 0.0),
        skipped,
    )
