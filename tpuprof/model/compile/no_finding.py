"""What compiled after the capture and is in no finding: it ended, or too few steps followed to tell."""

from __future__ import annotations

from collections.abc import Collection

from tpuprof.model.compile.recurrence import UNKNOWN_LINE, AfterCapture, CompilingLine
from tpuprof.model.compile.stages import changed_each_time
from tpuprof.report.labels import source_of
from tpuprof.units import MS_PER_S, counted, format_ms, format_share, listed

# Share of the time after the capture that such compiles must take to be worth a word (share): what makes a finding of
# compiles that come again.
TOLD_FROM_SHARE = 0.10
# Lines that are named (lines).
LINES_NAMED = 3
# Where graphs compile that no graph cut of the program runs.
UNNOTED = "outside of graph cuts (in reads of values, for example)"


def compiled_without_finding(
    after: AfterCapture | None, captured: int, lines_in_it: Collection[str] = ()
) -> str:
    """What to say of them after so many captured steps, where they took enough of the time; else empty.

    `lines_in_it` are those that compiled in captured steps, too: where those still compile, they have findings.
    """
    if after is None or not captured or after.estimated or after.wall_seconds <= 0:
        return ""
    ended = [each for each in after.lines.values() if after.stopped(each, captured)]
    if _share(ended, after) >= TOLD_FROM_SHARE:
        last = max(each.steps[-1] for each in ended)
        quiet = counted(after.steps - 1 - last, "step")
        elsewhere = any(step > last for each in after.lines.values() for step in each.steps)
        did = "compiled there" if elsewhere else "did"
        return f"{_said(ended, after)}. None of the last {quiet} {did}, so it counts as start-up cost"
    changed = [each for each in after.lines.values() if changed_each_time(each, after)]
    if _share(changed, after) >= TOLD_FROM_SHARE:
        return f"{_said(changed, after)}. Steps take another time since each, so it counts as start-up cost"
    if after.shows(captured):
        return ""
    others = [each for name, each in after.lines.items() if name not in (*lines_in_it, UNKNOWN_LINE)]
    others += [each for name, each in after.lines.items() if name == UNKNOWN_LINE and not lines_in_it]
    if _share(others, after) < TOLD_FROM_SHARE:
        return ""
    return f"{_said(others, after)}. Too few steps followed to tell whether compiles come again"


def _share(lines: list[CompilingLine], after: AfterCapture) -> float:
    return min(sum(each.seconds for each in lines) / after.wall_seconds, 1.0)


def _said(lines: list[CompilingLine], after: AfterCapture) -> str:
    known = {step for each in lines for step in each.steps}
    steps = min(max(len(known), *(each.cuts for each in lines)), after.steps)
    longest = sorted(lines, key=lambda each: -each.seconds)
    places = list(dict.fromkeys(source_of(each.frames[0]) for each in longest if each.frames))
    where = f" at {listed(places, LINES_NAMED, 'more line')}" if places else ""
    unnoted = sum(each.seconds for each in lines if not each.frames)
    if unnoted > sum(each.seconds for each in lines) / 2:
        where = f"{where} and for longer {UNNOTED}" if where else f" {UNNOTED}"
    took = format_ms(MS_PER_S * sum(each.seconds for each in lines))
    graphs = sum(each.graphs for each in lines)
    many = f" {counted(graphs, 'graph')}" if graphs > max(steps, sum(each.cuts for each in lines)) else ""
    return (
        f"{steps} of {counted(after.steps, 'step')} after the capture compiled{many}{where}: {took}, "
        f"{format_share(_share(lines, after))} of that time"
    )
