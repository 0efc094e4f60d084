"""How titles say a share of the steps: of each of them, or of all together where few hold nearly all of a cost."""

from __future__ import annotations

from tpuprof.model.verdict_sentence import MEAN
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.units import format_share

_OF_EACH, _WITHOUT, _ALL_WITHOUT = " of each step", " without its compiles", " without their compiles"


def of_each_step(signals: Signals, ms: float) -> str:
    """A time as its share of each step, and of what compiles leave of it where they take much of it."""
    if signals.uncompiled_ms > (1 - FAILS_FROM_SHARE) * signals.step_ms:
        return f"{format_share(ms / signals.step_ms)}{_OF_EACH}"
    return f"{format_share(ms / signals.uncompiled_ms)}{_OF_EACH}{_WITHOUT}"


def of_the_mean(title: str, held: str = "") -> str:
    """A title whose share is of all steps together, followed by `held`; as it is where it has none of each step."""
    if _OF_EACH + _WITHOUT in title:
        return title.replace(_OF_EACH + _WITHOUT, f" of {MEAN}{_ALL_WITHOUT}{held}", 1)
    return title.replace(_OF_EACH, f" of {MEAN}{held}", 1)
