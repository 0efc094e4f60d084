"""Why host work that leaves the device idle may cost nothing: something else makes host and device take turns."""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.model.verdict_reads import BALANCE_FOR_SYNC
from tpuprof.report.labels import HIDES_BEHIND_DEVICE
from tpuprof.signals import Signals


def takes_turns(signals: Signals) -> tuple[str, str] | None:
    """(what makes them take turns, the reason why tracing hides without it); None where tracing itself costs time."""
    if signals.bound == "sync" and _hides(signals):
        return (
            "a read",
            "a device-to-host read makes host and device take turns: without it, tracing hides",
        )
    if signals.bound == "device":
        return "the runtime", HIDES_BEHIND_DEVICE
    return None


def _hides(signals: Signals) -> bool:
    """Whether the device works for about as long as the host traces: tracing can then run beside it."""
    mean = signals.steps.mean_parts()
    busy = signals.step_ms - sum(ms for name, ms in mean.items() if name not in part.DEVICE_PARTS)
    return busy >= BALANCE_FOR_SYNC * (mean.get(part.TRACING, 0.0) + signals.tracing_hidden_ms)
