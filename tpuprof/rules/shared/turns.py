"""Why host work that leaves the device idle may cost nothing: something else makes host and device take turns."""

from __future__ import annotations

from tpuprof.signals import Signals


def takes_turns(signals: Signals) -> tuple[str, str] | None:
    """(what makes them take turns, the reason why tracing hides without it); None where tracing itself costs time."""
    if signals.bound == "sync":
        return (
            "a read",
            "a device-to-host read makes host and device take turns: without it, tracing hides",
        )
    if signals.bound == "device":
        return (
            "the runtime",
            "the device needs longer than the host: without the runtime's waits, tracing hides behind it",
        )
    return None
