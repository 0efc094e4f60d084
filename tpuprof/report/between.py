"""What of a run is no training: phases that come again and again between its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuprof.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tpuprof.report.schema import CompileRow, Report
    from tpuprof.report.sections import PhaseRow

EVALUATION = "evaluation"
OTHER_GRAPHS = "other graphs"
OTHER_CALLS = "other calls"
# A compile comes once.
COMES_AGAIN = (EVALUATION, OTHER_CALLS, OTHER_GRAPHS)
# Time of evaluations between steps, beside that of the steps, from which the verdict says so (ratio): a fifth of both.
# A judgement: readers compare what a fix saves with it.
BETWEEN_FROM = 0.25
# What a finding says that is of this, and of no step.
BETWEEN_STEPS = "between the training steps"
# What a warning says of what steps outside of the capture spent.
NOT_CAPTURED = "is not in this capture"
# What it says where steps took another time since each compile.
SINCE_A_COMPILE = "since a compile"


def spent_outside(report: Report) -> bool:
    """Whether a warning says that steps outside of the capture took longer, of what it does not show."""
    return any(NOT_CAPTURED in warning for warning in report.warnings)


def changed_after(report: Report) -> bool:
    """Whether one of them says that steps took another time since a compile: later ones are of another program."""
    return any(NOT_CAPTURED in each and SINCE_A_COMPILE in each for each in report.warnings)


def coming_again(phases: Iterable[PhaseRow], begin: Mapping[str, int]) -> list[PhaseRow]:
    """Phases between the steps of hosts whose first steps begin at these times (ns); none of other hosts."""
    return [
        row
        for row in phases
        if row.name in COMES_AGAIN
        and not row.inside
        and row.start_ns >= begin.get(row.host, row.start_ns + 1)
    ]


def compiles_in(compiles: Iterable[CompileRow], phases: Sequence[PhaseRow]) -> list[CompileRow]:
    """Compiles that began in one of these phases."""
    return [
        row
        for row in compiles
        if any(
            row.host == phase.host
            and phase.start_ns <= row.start_ns < phase.start_ns + phase.duration_ms * NS_PER_MS
            for phase in phases
        )
    ]


def share_between(report: Report) -> float:
    """The share of the time from the first step on that lies between steps and comes again; 0 where that is little."""
    begin: dict[str, int] = {}
    within: dict[str, float] = {}
    for step in report.steps.per_step:
        begin[step.host] = min(begin.get(step.host, step.start_ns), step.start_ns)
        within[step.host] = within.get(step.host, 0.0) + step.wall_ms
    between = dict.fromkeys(within, 0.0)
    for row in coming_again(report.phases, begin):
        between[row.host] += row.duration_ms
    shares = (
        ms / (ms + within[host]) for host, ms in between.items() if ms and ms >= BETWEEN_FROM * within[host]
    )
    return next(shares, 0.0)
