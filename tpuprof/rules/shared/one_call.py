"""A call of the program that reads values and computes with them on the host: histograms of all weights, say.

Its time lies in several parts of the breakdown, none of which explains a slow step by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tpuprof.model.compile.recurrence import LongSteps
from tpuprof.report.sections import HostStackRow
from tpuprof.report.user_frames import places_of_users

# Share of the exposed time of each part that has to lie below the call (share), and of all samples above which a line
# is that of the loop, which leads to everything (share). Judgements: most of it, and nearly all.
MOST_FROM_SHARE, LOOP_FROM_SHARE = 0.5, 0.9
# Share of the samples in long later steps, behind their usual time, that must be below the call for these to be of it
# (share). A long step also does all that the others do. A judgement: a quarter.
AGAIN_FROM_SHARE = 0.25


def call_of(stacks: Sequence[HostStackRow], parts: Iterable[str]) -> str:
    """The line (`file:line`) of the program below which most of the exposed time of each of these parts is.

    The outermost one that is no line of the loop itself; empty where there is none.
    """
    whole = sum(row.exposed_ms_per_step for row in stacks)
    loop = {line for line, ms in _below(stacks).items() if ms >= LOOP_FROM_SHARE * whole}
    found: list[str] | None = None
    for part in parts:
        lines = _lines_with_most([row for row in stacks if row.part == part])
        found = [line for line in (lines if found is None else found) if line in lines and line not in loop]
    return found[0] if found else ""


def _lines_with_most(rows: Sequence[HostStackRow]) -> list[str]:
    """The lines that lead to most of what these rows have, the outermost first."""
    whole = sum(row.exposed_ms_per_step for row in rows)
    return [line for line, ms in _below(rows).items() if ms >= MOST_FROM_SHARE * whole > 0]


def _below(rows: Sequence[HostStackRow]) -> dict[str, float]:
    """What of the exposed time of these rows (ms per step) is below each line of the program, the outermost first."""
    found: dict[str, float] = defaultdict(float)
    for row in rows:
        for line in places_of_users(row.frames):
            found[line] += row.exposed_ms_per_step
    return found


def comes_again(long: LongSteps, line: str) -> bool:
    """Whether steps after the capture that take longer than their like are at the call often enough."""
    seen = sum(long.stacks.values())
    there = sum(times for text, times in long.stacks.items() if f"({line})" in text)
    return bool(line and seen) and there >= AGAIN_FROM_SHARE * seen
