"""The clocks of a ledger: one that never jumps, for durations, and the wall clock beside it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tpuprof.units import NS_PER_S

# Linux's clock that also counts while the machine is suspended; elsewhere the monotonic clock has to do.
_STEADY = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


class Clock:
    """The real clocks. Tests use one of their own with the same methods."""

    def now_ns(self) -> int:
        """Nanoseconds of a clock that only moves forward, from any origin."""
        return time.clock_gettime_ns(_STEADY) if _STEADY is not None else time.monotonic_ns()

    def wall_ns(self) -> int:
        """Nanoseconds since the epoch, by the machine's clock, which may jump."""
        return time.time_ns()

    def cpu_ns(self) -> int:
        """CPU time of this process (ns)."""
        return time.process_time_ns()


def process_start_ns(clock: Clock) -> int:
    """When this process started, by the clock; now, where the system does not say. Exact to a clock tick (10 ms)."""
    now = clock.now_ns()
    try:
        fields = Path("/proc/self/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        started = int(fields[19]) * NS_PER_S // os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started
    except (OSError, ValueError, IndexError, AttributeError):
        return now
    return now - max(age, 0)
