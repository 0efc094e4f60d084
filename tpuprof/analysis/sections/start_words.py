"""What the verdict adds where a run spent most of its time on compiles before the captured steps."""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof.model.host_run import HostRun
from tpuprof.model.telemetry import compile_seconds_before
from tpuprof.rules.thresholds import SLOW_COMPILE_FROM_SECONDS
from tpuprof.units import MS_PER_S, NS_PER_S, format_ms, format_share

# Share of a run's time from which such compiles count (share): most of it. A judgement.
MOST_FROM_SHARE = 0.5


def said_of_start(hosts: Sequence[HostRun]) -> str:
    """That XLA compiled for most of the run before the captured steps, of the host that did so longest; else empty.

    The program has to have ended: before that, nobody knows how long it runs.
    """
    found = [each for each in map(_of_host, hosts) if each is not None]
    if not found:
        return ""
    seconds, whole = max(found)
    took, compiled = (format_ms(each * MS_PER_S) for each in (whole, seconds))
    return (
        f" The run took {took}. For {compiled} of it ({format_share(seconds / whole)}) XLA compiled before the "
        "captured steps: that is start-up, and in none of these shares."
    )


def _of_host(host: HostRun) -> tuple[float, float] | None:
    """Seconds of compiles before the captured steps, and of all steps; None where they are little, or not known."""
    after = host.after
    if after is None or after.estimated or not after.ended:
        return None
    seconds = compile_seconds_before(host.records)
    steps = sum(each.wall_ns for each in host.records if each.before or each.captured) / NS_PER_S
    whole = max(steps + after.took, seconds)
    told = seconds >= SLOW_COMPILE_FROM_SECONDS and seconds >= MOST_FROM_SHARE * whole
    return (seconds, whole) if told else None
