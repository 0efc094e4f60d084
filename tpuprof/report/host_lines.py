"""Sampled stacks of one part of the breakdown, summed by the user's line."""

from __future__ import annotations

from tpuprof.parts import HOST_PREFIX
from tpuprof.report.sections import HostStackRow

# What the training thread does in a part that samples name.
_VERBS = {
    "sleep": "sleeps",
    "io": "reads or writes",
    "lock": "waits for a lock, queue or process",
    "gil": "waits for Python's lock (the GIL), which another thread holds,",
    "python": "runs code that traces nothing",
    "wait": "waits in a call",
}


def lines_of(stacks: list[HostStackRow], part: str) -> list[tuple[str, str, float, float]]:
    """(line, what it calls, exposed ms, hidden ms) of a part, by the user's line, most exposed first."""
    sums: dict[tuple[str, str], tuple[float, float]] = {}
    for row in stacks:
        if row.part == part:
            key = (row.source or (row.frames[-1] if row.frames else ""), row.user_call or row.call)
            before = sums.get(key, (0.0, 0.0))
            sums[key] = (before[0] + row.exposed_ms_per_step, before[1] + row.hidden_ms_per_step)
    found = [(source, call, *ms) for (source, call), ms in sums.items()]
    return sorted(found, key=lambda each: -each[2])


def verb_of(part: str) -> str:
    """What the training thread does in a part `host:KIND`, as a verb."""
    kind = part.removeprefix(HOST_PREFIX)
    return _VERBS.get(kind, f"is in {kind}")


def holder_of(stacks: list[HostStackRow], part: str) -> str:
    """The line of another thread that held Python's lock, where the training thread waited for it in this part."""
    return next((row.holder for row in stacks if row.part == part and row.holder), "")
