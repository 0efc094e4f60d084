"""Where the planted faults lie: a long run has more steps, and its faults lie as many times further apart."""

from typing import NamedTuple

# First step of each fault, of the end by SIGTERM, and the last step, in the shortest run (steps).
_FAULTS = {"recompile": 175, "stall": 300, "slow storage": 450, "leak": 520, "hang": 1280}
_PREEMPTION, _SHORTEST = 1330, 1500
# What a step of a run of a given length takes (s), about, and what each waits for at least, so that others may run (s).
_STEP_SECONDS, _LEAST_PAUSE = 0.2, 0.03


class Plan(NamedTuple):
    """First step of each fault and of the preemption, the last step, and the least time per step (s)."""

    faults: dict[str, int]
    preemption: int
    last: int
    pace: float
    pause: float = _LEAST_PAUSE


def plan(minutes: float) -> Plan:
    """The plan of a run that takes so long at least; with 0 it is the shortest."""
    times = max(1, round(60 * minutes / _STEP_SECONDS / _SHORTEST))
    faults = {name: times * step for name, step in _FAULTS.items()}
    last = times * _SHORTEST
    return Plan(faults, times * _PREEMPTION, last, 60 * minutes / last)
