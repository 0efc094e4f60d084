"""What the rules on start-up compiles share: how long they took, whether that matters, and what a fix saves."""

from __future__ import annotations

from tpuprof.report.schema import Evidence, Savings
from tpuprof.rules.base import Price
from tpuprof.rules.thresholds import SLOW_COMPILE_FROM_SECONDS, STARTUP_SPREAD_OVER_STEPS
from tpuprof.signals import Signals

CACHE_VARIABLE = "XLA_PERSISTENT_CACHE_PATH"
CACHE_COUNTERS = ("PersistentCacheHit", "PersistentCacheMiss", "PersistentCacheLoad")


def compile_evidence(signals: Signals) -> list[Evidence]:
    """How many graphs were compiled before the capture, and how long those cuts took."""
    return [
        Evidence("graphs compiled before the captured steps", signals.startup_compiles, "graphs"),
        Evidence("time of the graph cuts that compiled them", signals.startup_compile_seconds, "s"),
    ]


def slow_start(signals: Signals) -> bool:
    """Whether compiles before the capture took long enough to matter."""
    return signals.startup_compile_seconds >= SLOW_COMPILE_FROM_SECONDS


def at_stake(signals: Signals) -> float:
    """Start-up compiles as a share of a short run's time."""
    steps = STARTUP_SPREAD_OVER_STEPS * signals.step_ms / 1e3
    return signals.startup_compile_seconds / (signals.startup_compile_seconds + steps)


def cache_was_on(signals: Signals) -> bool:
    """Whether a persistent compilation cache was asked for, by variable or in code."""
    return bool(signals.variables.get(CACHE_VARIABLE)) or any(
        signals.all_counters.get(name) for name in CACHE_COUNTERS
    )


def saved_at_start(signals: Signals, least: float, most: float) -> Price:
    """Those shares of the start-up compiles, spread over the steps of a short run (ms a step)."""
    per_step = signals.startup_compile_seconds * 1e3 / STARTUP_SPREAD_OVER_STEPS
    return Price(savings=Savings(least * per_step, most * per_step, "bound"))
