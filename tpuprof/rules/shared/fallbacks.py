"""What the rules on ops that fall back to the host share: which do in the usual step, and which select by data."""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.report.sections import FallbackRow
from tpuprof.rules.thresholds import FALLBACKS_FROM
from tpuprof.signals import Signals

# Ops whose result is as long as data decides: a boolean mask as index calls `nonzero`.
SELECTING = frozenset({"aten::nonzero", "aten::masked_select"})
# Parts of the host's time that go with an op that runs there.
HOST_SIDE = (part.ATEN_FALLBACK, part.HOST_SYNC, part.HOST_TO_DEVICE)


def usual_fallbacks(signals: Signals) -> list[FallbackRow]:
    """Ops that fall back in the usual step. Raises `Unavailable`."""
    return [row for row in signals.fallbacks if (row.per_step or 0.0) >= FALLBACKS_FROM]
