"""Host code and the work of a device that is this machine's CPU: without the one the other may be faster."""

from __future__ import annotations

from collections.abc import Collection

from tpuprof.signals import Signals

_PYTHON = "host:python"


def short_of_cpus(signals: Signals) -> bool:
    """Whether the device is this machine's CPU, and host and device take CPUs from each other."""
    return signals.device_type == "CPU" and signals.cpus_short


def takes_cpus(signals: Signals, parts: Collection[str]) -> float:
    """The time of the host's own code, also behind the device's work, where both share too few CPUs (share of step).

    0 where the device is no CPU, or there are enough of them. `parts` are the kinds of host time that a fix takes out;
    who sleeps or waits takes no CPU. One thread takes one CPU at most: of what the device works beside it as much stays
    as the others did. Of 24.4 ms, 17.9 of them busy on two CPUs, 15.5 were saved, where "up to 24.0 ms" was said.
    """
    if _PYTHON not in parts or not short_of_cpus(signals):
        return 0.0
    rows = [row for row in signals.host_stacks if row.part == _PYTHON]
    taken = sum(row.exposed_ms_per_step + row.hidden_ms_per_step for row in rows) / signals.step_ms
    return min(taken, 1.0 - signals.busy_share * _others_share(signals.cpus))


def _others_share(cpus: float) -> float:
    """Share of all CPUs that a device has beside one thread of the host; 0 where their number is unknown."""
    return 1.0 - 1.0 / cpus if cpus > 1 else 0.0
