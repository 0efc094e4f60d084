"""One training iteration on one slice: its graphs' predictions together. Times add, memory is the largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tpuprof.preflight.memory import Memory, memory_dict
from tpuprof.preflight.prediction import Prediction
from tpuprof.units import MS_PER_S, format_bytes

# What came of a compile, as the command's exit status: a program that does not fit, one that cannot be compiled,
# a compiler that crashed, and limits of ours that leave the question open.
DOES_NOT_FIT, REFUSED, CRASHED, CANNOT_JUDGE = 1, 2, 3, 4
_STATUS = {
    "compiled": 0, "out-of-memory": DOES_NOT_FIT, "refused": REFUSED, "unknown-target": REFUSED, "crashed": CRASHED,
    "time-limit": CANNOT_JUDGE, "memory-limit": CANNOT_JUDGE,
}  # fmt: skip


@dataclass
class Iteration:
    """Predictions of the graphs of one iteration, each with how often it runs; `main` is the largest update.

    Without an update of weights (`trains` is False) it is one graph, and no training step.
    """

    target: str
    parts: list[tuple[Prediction, int]]
    main: Prediction
    trains: bool
    left_out: int = 0

    @property
    def step_ms(self) -> float | None:
        """Predicted device time of one iteration, None where one of its graphs has no prediction."""
        total = 0.0
        for found, count in self.parts:
            if found.step_ms is None:
                return None
            total += found.step_ms * count
        return total

    @property
    def memory(self) -> Memory | None:
        """Memory of the graph that needs most, None where one of them is unknown."""
        known = [found.memory for found, _ in self.parts]
        if any(each is None for each in known):
            refused = [each for each in known if each is not None and not each.fits]
            return refused[0] if refused else None
        return max((each for each in known if each), key=lambda each: (not each.fits, each.total or 0))

    @property
    def largest(self) -> Prediction | None:
        """The prediction whose memory is the iteration's, None where that is unknown."""
        memory = self.memory
        return next((found for found, _ in self.parts if memory is not None and found.memory is memory), None)

    @property
    def mfu_bound(self) -> float | None:
        """FLOPs of all runs over what the chip could do in the predicted time; None where one of them is unknown."""
        step_ms, flops = self.step_ms, 0
        for found, count in self.parts:
            if found.flops is None:
                return None
            flops += found.flops * count
        if not step_ms:
            return None
        return flops / (step_ms / MS_PER_S) / self.main.compiled.target.chip.peak_flops_per_s

    @property
    def fits(self) -> bool | None:
        """Whether a training iteration fits; None where that is unknown or nothing trains."""
        return self.memory.fits if self.trains and self.memory is not None else None

    @property
    def exit_status(self) -> int:
        """0 where it fits, else why not (see the constants above)."""
        if self.memory is not None and not self.memory.fits:
            return DOES_NOT_FIT
        worst = max(_STATUS.get(found.compiled.status, CRASHED) for found, _ in self.parts)
        return worst or (0 if self.trains else CANNOT_JUDGE)

    @property
    def verdict(self) -> str:
        """Fits or not and by how much; why there is no verdict."""
        memory = self.memory
        if memory is None:
            return next(f.compiled.status for f, _ in self.parts if f.memory is None)
        capacity = format_bytes(memory.capacity)
        if not memory.fits:
            return f"does not fit: {format_bytes(memory.shortfall)} too much for {capacity} HBM"
        if not self.trains:
            taken = format_bytes(memory.total or 0)
            return f"not a training step: no verdict; the graph takes {taken} of {capacity} HBM"
        return f"fits, {format_bytes(memory.capacity - (memory.total or 0))} of {capacity} HBM to spare"


def iteration_dict(each: Iteration) -> dict[str, Any]:
    """Plain values for JSON."""
    return {
        "target": each.target,
        "training": each.trains,
        "verdict": each.verdict,
        "fits": each.fits,
        "step_ms": each.step_ms,
        "mfu_bound": each.mfu_bound,
        "graphs": [
            {"number": found.compiled.graph.number, "kind": found.compiled.graph.kind, "times": count,
             "step_ms": found.step_ms, "status": found.compiled.status, "updates_weights": found.compiled.graph.updates}
            for found, count in each.parts
        ],
        "small_graphs_left_out": each.left_out,
        "memory": memory_dict(each.memory) if each.memory else None,
    }  # fmt: skip
