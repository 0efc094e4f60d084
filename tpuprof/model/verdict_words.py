"""The words of a verdict: how much time each has, what it is called, and from what share on it counts."""

from __future__ import annotations

from tpuprof import parts
from tpuprof.model.step_times import Bound, StepTimes

# Share of a step from which a part is worth naming; below it, removing the part whole gains less than the
# run-to-run noise usually seen (a tenth, as the warning threshold of a tracing time near the step time asks).
NAMED_FROM_SHARE = 0.10
# Share of device-busy time from which a run is device-bound: the complement of the above.
DEVICE_BOUND_FROM_SHARE = 0.90
# Share of steps that must hold a blocking read for reads to be the run's rhythm and not an accident.
READS_IN_STEPS_SHARE = 0.5
# Share of device-busy time from which reads in fewer steps than that are not what holds a run up: the host runs ahead
# and waits for all of it at once. Nor does idle time of unknown cause take the verdict from such a device. Not fitted:
# above it the device's own work is more than twice what is left.
MOSTLY_BUSY_FROM_SHARE = 0.7
# What words are called inside a sentence, where that is not the word itself.
_SPOKEN = {
    "undecided": "tracing or other Python",
    "unknown": "what the trace does not name",
    "sync": "reads of values from the device",
    "host": "other work of the host",
    "input": "input",
}


def groups_of(load: StepTimes) -> dict[str, float]:
    """Time by word of the verdict (ms)."""
    groups: dict[str, float] = {}
    for name, ms in load.parts.items():
        word = parts.part_of(name).word
        groups[word] = groups.get(word, 0.0) + ms
    return groups


def spoken(bound: Bound) -> str:
    """What a bound is called inside a sentence."""
    own = parts.OWN_ANNOTATIONS.get(bound.name)
    return own[0] if own else repr(bound.name) if bound.name else named(bound.word)


def named(word: str) -> str:
    """What a word is called inside a sentence."""
    return _SPOKEN.get(word) or word.removeprefix(parts.USER_PREFIX)
