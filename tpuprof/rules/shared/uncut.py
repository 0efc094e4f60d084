"""Whether nothing cuts the graph: what several rules ask before they blame what follows from it."""

from __future__ import annotations

from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals, Unavailable

# Why another rule passes.
SEE = "nothing cuts the graph: see no-graph-cut"


def uncut(signals: Signals) -> bool:
    """Whether optimizers stepped and nothing cut the graph, so that no graph ran or each that ran was compiled."""
    try:
        if not signals.uncut_steps:
            return False
        return not signals.cutting_reads or signals.compile_share >= FAILS_FROM_SHARE
    except Unavailable:
        return False
