"""What the rules on start-up compiles share: how long they took, whether that matters, and what a fix saves."""

from __future__ import annotations

from tpuprof.report.schema import Evidence, Savings
from tpuprof.rules.base import Price
from tpuprof.rules.preflight import compile_seconds_evidence
from tpuprof.rules.thresholds import SLOW_COMPILE_FROM_SECONDS, STARTUP_SPREAD_OVER_STEPS
from tpuprof.signals import Signals


def compile_evidence(signals: Signals) -> list[Evidence]:
    """How many graphs were compiled before the capture, and how long those cuts took; what a preflight says of it."""
    predicted = compile_seconds_evidence(signals)
    if signals.run.predicted:
        return predicted
    return [
        Evidence("graphs compiled before the captured steps", signals.startup_compiles, "graphs"),
        Evidence("time of the graph cuts that compiled them", signals.startup_compile_seconds, "s"),
        *predicted,
    ]


def slow_start(signals: Signals) -> bool:
    """Whether compiles before the capture took long enough to matter."""
    return signals.startup_compile_seconds >= SLOW_COMPILE_FROM_SECONDS


def at_stake(signals: Signals) -> float:
    """Start-up compiles as a share of a short run's time."""
    steps = STARTUP_SPREAD_OVER_STEPS * signals.step_ms / 1e3
    return signals.startup_compile_seconds / (signals.startup_compile_seconds + steps)


def saved_at_start(signals: Signals, least: float, most: float) -> Price:
    """Those shares of the start-up compiles (s), also spread over the steps of a short run (ms per step)."""
    seconds = signals.startup_compile_seconds
    per_step = seconds * 1e3 / STARTUP_SPREAD_OVER_STEPS
    return Price(
        savings=Savings(
            least * per_step,
            most * per_step,
            "bound",
            start_low_s=least * seconds,
            start_high_s=most * seconds,
            per="start",
        )
    )
