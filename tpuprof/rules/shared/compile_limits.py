"""Functions that torch.compile gave up on, since it had compiled them as often as it may."""

from __future__ import annotations

from tpuprof.report.schema import Evidence
from tpuprof.signals.telemetry import CompileLimit

# The case of the advice on them.
LIMIT = "limit"


def gave_up(limits: list[CompileLimit]) -> str:
    """What a title says of the first one, as the begin of a sentence."""
    return f"torch.compile gave up on the function at {limits[0].source} after {limits[0].times} compiles"


def limit_evidence(limits: list[CompileLimit]) -> list[Evidence]:
    """Each with how often it was compiled, and what did not hold the last time."""
    return [
        Evidence(
            f"compiled {each.times} times; the last time this did not hold: {each.reason}", source=each.source
        )
        for each in limits
    ]
