"""What the rules on ops that fall back to the host share: which do in the usual step, and what their price is."""

from __future__ import annotations

from collections.abc import Mapping

from tpuprof import parts as part
from tpuprof.model.verdict_words import READS_IN_STEPS_SHARE
from tpuprof.report.schema import Evidence, Savings
from tpuprof.report.sections import FallbackRow
from tpuprof.rules.base import Price, counterfactual
from tpuprof.rules.pricing import BOUND
from tpuprof.rules.thresholds import FAILS_FROM_SHARE, FALLBACKS_FROM
from tpuprof.signals import Signals, Unavailable
from tpuprof.simulate.change import Change

# Ops whose result is as long as data decides: a boolean mask as index calls `nonzero`.
SELECTING = frozenset({"aten::nonzero", "aten::masked_select"})
# Parts of the host's time that are the op's own, and all that go with an op that runs there.
_OWN = (part.ATEN_FALLBACK, part.HOST_TO_DEVICE)
_HOST_SIDE = (*_OWN, part.HOST_SYNC)


def usual_fallbacks(signals: Signals) -> list[FallbackRow]:
    """Ops that fall back in the usual step. Raises `Unavailable`."""
    return [row for row in signals.fallbacks if (row.per_step or 0.0) >= FALLBACKS_FROM]


def calls_evidence(rows: list[FallbackRow]) -> list[Evidence]:
    """How often a step calls each op, with the lines that do."""
    return [
        Evidence(row.op, row.per_step, "calls per step", source=row.source, also=row.also) for row in rows
    ]


def reads_that_stay(signals: Signals) -> list[Evidence]:
    """Values that the program itself reads in the usual step: without the op, too, host and device take turns there."""
    rows = signals.python_reads_if_seen
    if not rows or sum(row.occurrences for row in rows) < READS_IN_STEPS_SHARE * len(signals.steps):
        return []
    return [
        Evidence(f"a read that stays: {row.call}", row.occurrences, "times in all", source=row.source)
        for row in rows
    ]


def waits_that_stay(signals: Signals) -> list[Evidence]:
    """What the host waits for the device beside the op, inside the runtime: without it, too, they may take turns there.

    A vision model whose op falls back early in the step was sold with all the turns (15 to 38 ms). Its runtime waited
    for buffers that the device still used as well, and without the op it went on to: 11 ms were saved.
    """
    try:
        waited = signals.runtime_wait_ms
    except Unavailable:  # a run without events of the host: nothing is known to wait
        return []
    if waited < FAILS_FROM_SHARE * signals.step_ms:
        return []
    return [Evidence("waits for the device inside the runtime, which may stay", waited, "ms per step")]


def price_with_again(signals: Signals) -> Price:
    """What a step saves without its fallbacks, where the device also computes again what they take in.

    At least both, and at most all that the device idles beside the work that it does twice: host and device then work
    side by side.
    """
    parts, twice = signals.steps.mean_parts(), signals.again_for_ops_ms
    idle = signals.step_ms * (1 - signals.busy_share)
    own = min(sum(parts.get(name, 0.0) for name in _OWN), idle)
    gone = Change(host=dict.fromkeys(_HOST_SIDE, 0.0), unblock=True)
    return Price(savings=Savings(twice + own, twice + idle, BOUND), most=gone)


def price_without(
    stays: list[Evidence], most: Mapping[str, float] | None = None, least: Mapping[str, float] | None = None
) -> Price:
    """What a step saves without its fallbacks; `most` and `least` say how much is left of other times of the host.

    Where reads or waits stay (`stays`), host and device may go on taking turns at them: no more than the op's own time
    may be gained.
    """
    gone = Change(host={**dict.fromkeys(_HOST_SIDE, 0.0), **(most or {})}, unblock=True)
    if stays:
        return counterfactual(gone, Change(host={**dict.fromkeys(_OWN, 0.0), **(least or {})}))
    joined = Change(host=gone.host, unblock=True, join_cuts=0.0)
    return counterfactual(
        joined, Change(host={**dict.fromkeys(_HOST_SIDE, 0.0), **(least or {})}, unblock=True)
    )
