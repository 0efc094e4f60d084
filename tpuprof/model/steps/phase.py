"""What a phase is."""

from __future__ import annotations

from tpuprof.records import record

ONE_OFF_COMPILE = "one-off compile"
RUN_UP = "run-up"
READY_BATCHES = "ready batches"
RUN_AHEAD = "run-ahead"
NOT_RECORDED = "steps not recorded"
OPS_NOT_RECORDED = "ops not recorded"


@record(frozen=True)
class Phase:
    """A stretch from `start` to `end` (ps from origin) that is no training, or unknown: its name, cuts, and evidence.

    `step` is the number of the step it comes before, or is in where `inside` is true.
    """

    name: str
    start: int
    end: int
    cuts: int
    evidence: str
    step: int
    inside: bool = False


@record(frozen=True)
class LeftOut:
    """What is said of steps that are left out at an end of a capture: a phase without its place."""

    name: str
    cuts: int
    evidence: str

    def phase(self, start: int, end: int, step: int) -> Phase:
        """The phase from `start` to `end` (ps from origin)."""
        return Phase(self.name, start, end, self.cuts, self.evidence, step)
