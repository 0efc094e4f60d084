"""Whether the program had the CPUs that it wanted while it was captured."""

from __future__ import annotations

from typing import Any

from tpuprof.model.host.samples import HostSamples
from tpuprof.units import format_share

# Share of waiting from which what the host does is doubtful: at one half it takes twice the time that it would alone.
DOUBTFUL_FROM_SHARE = 0.5
# The same from which the verdict itself says so (share): what the host does took five times as long as on a free
# machine, and what it waits for did not. A judgement.
VERDICT_FROM_SHARE = 0.8
# Share of the time that they can run that a program's threads wait for a CPU from which a price says as well what the
# fix saves on a machine that nothing else uses (share): work then takes a quarter longer than it would there.
DISTURBED_FROM_SHARE = 0.2
# Share of the CPUs' time from which host and device take it from each other (share): what is left is less than the
# step would change. A judgement.
ALL_CPUS_FROM_SHARE = 0.85
# Words of the verdict that other work on the machine can make.
_OF_THE_HOST = ("tracing", "dispatch", "host", "input", "undecided")


def cpu_wait(info: dict[str, Any]) -> float | None:
    """Share of the time that its threads could run in which they waited for a CPU, None where the capture has none."""
    capture = info.get("capture")
    found = capture.get("cpu_wait_share") if isinstance(capture, dict) else None
    return min(max(float(found), 0.0), 1.0) if isinstance(found, int | float) else None


def waits_of_each(info: dict[str, Any], samples: HostSamples | None) -> tuple[float, float]:
    """Shares of the time that they could run in which the training thread, and the others, waited for a CPU.

    Samples know those of the training thread; where there are none, each has the share of all threads.
    """
    share, capture = cpu_wait(info), info.get("capture")
    if not share:
        return 0.0, 0.0
    used = capture.get("cpus_used") if isinstance(capture, dict) else None
    if samples is None or not samples.ran or not isinstance(used, int | float) or share >= 1:
        return share, share
    ran = used * samples.covered
    others_ran = max(ran - samples.ran, 0.0)
    others_waited = max(ran * share / (1 - share) - samples.waited, 0.0)
    own = samples.waited / (samples.ran + samples.waited)
    return own, others_waited / (others_ran + others_waited) if others_ran else share


def cpu_use(info: dict[str, Any]) -> float | None:
    """Share of the CPUs' time that the program used while it was captured, None where the capture does not say."""
    used, there = _noted(info, "cpus_used"), cpus_there(info)
    return min(used / there, 1.0) if used > 0 and there > 0 else None


def cpus_there(info: dict[str, Any]) -> float:
    """How many CPUs the program may use, 0 where the capture does not say."""
    return _noted(info, "cpus")


def _noted(info: dict[str, Any], name: str) -> float:
    capture = info.get("capture")
    found = capture.get(name) if isinstance(capture, dict) else None
    return float(found) if isinstance(found, int | float) else 0.0


def short_of_cpus(info: dict[str, Any]) -> str:
    """That a program and a device that is its machine's CPU take CPUs from each other, as the begin of a sentence.

    Empty where there were enough, or it is unknown.
    """
    used, waited = cpu_use(info), cpu_wait(info)
    if used is not None and used >= ALL_CPUS_FROM_SHARE:
        return f"The program used {format_share(used)} of the CPUs"
    if waited is not None and waited >= DISTURBED_FROM_SHARE:
        return f"Its threads waited for a CPU for {format_share(waited)} of the time that they could have run"
    return ""


def busy_machine(info: dict[str, Any]) -> list[str]:
    """What to say of a machine that had too few CPUs; empty where it had enough."""
    share = cpu_wait(info)
    if share is None or share < DOUBTFUL_FROM_SHARE:
        return []
    waited = f"the program's threads waited for a CPU for {format_share(share)} of the time that they could have run"
    used = cpu_use(info)
    if used is not None and used >= ALL_CPUS_FROM_SHARE:
        return [
            f"{waited}, and the program itself used {format_share(used)} of the CPUs. With more of them, what the host "
            "does takes less time"
        ]
    return [
        f"{waited}: other work had the CPUs, or these threads had too few. What the host does takes longer here than "
        "on a free machine, so the verdict may be about that; capture again on a free machine"
    ]


def said_with_the_verdict(info: dict[str, Any], word: str) -> str:
    """What a verdict on the host's work adds where other work had the CPUs for nearly all of the time; else nothing."""
    share = cpu_wait(info)
    if share is None or share < VERDICT_FROM_SHARE or word not in _OF_THE_HOST:
        return ""
    return (
        f" The CPUs were taken: the program's threads waited for one for {format_share(share)} of the time that they "
        "could have run. On a free machine something else may hold training up."
    )
