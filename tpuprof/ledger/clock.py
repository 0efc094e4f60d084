"""The clocks of a ledger: one that never jumps, for durations, and the wall clock beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tpuprof.units import NS_PER_S

# Linux's clock that also counts while the machine is suspended; elsewhere the monotonic clock has to do.
_STEADY = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


class Clock:
    """The real clocks. Tests use one of their own with the same methods."""

    def __init__(self) -> None:
        # Functions of C, without one of Python around them: the training thread calls them several times per step.
        # Nanoseconds of a clock that only moves forward, from any origin.
        self.now_ns: Callable[[], int] = (
            partial(time.clock_gettime_ns, _STEADY) if _STEADY is not None else time.monotonic_ns
        )
        # Nanoseconds since the epoch, by the machine's clock, which may jump.
        self.wall_ns: Callable[[], int] = time.time_ns
        # CPU time of this process (ns).
        self.cpu_ns: Callable[[], int] = time.process_time_ns


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
