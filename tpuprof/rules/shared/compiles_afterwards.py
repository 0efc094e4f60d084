"""Compiles that come after the captured steps only: from what the process counted, or looks at its thread saw."""

from __future__ import annotations

from tpuprof.model.compile.recurrence import (
    RETURNS_FROM_STEPS,
    UNKNOWN_LINE,
    AfterCapture,
    CompilingLine,
    occasions,
)
from tpuprof.report.labels import source_of
from tpuprof.report.schema import Evidence
from tpuprof.rules.base import Outcome, failed
from tpuprof.rules.programs import TORCH_XLA
from tpuprof.rules.shared.recompile_cases import ANY_CAUSE, SELDOM
from tpuprof.rules.shared.recompiles import COMES_AGAIN_UNKNOWN, SHOWN, rates
from tpuprof.rules.shared.returning_compiles import by_line
from tpuprof.rules.thresholds import FAILS_FROM_SHARE
from tpuprof.signals import Signals
from tpuprof.units import MS_PER_S, counted, format_ms, format_share, listed

# Of compiles that no captured step holds.
UNSEEN_CAUSE = "those hold none of it, so what changed is unknown"
# What compiles count that came once or twice after the capture (ratio): the first short batch and the first evaluation
# compile once, a new learning rate per epoch each time. Half is the middle between none of it and all. A judgement.
MAY_BE_ONCE = 0.5
# Share of the steps after the capture, their last ones, in which a compile that comes once may be the end of a schedule
# (share): `1 - lr * weight_decay` became 1 in the last 2 to 9 % of the steps of three programs. A judgement: a tenth.
LAST_SHARE = 0.1
AT_THE_END = ", in the last tenth of the steps"


def check_afterwards(signals: Signals) -> Outcome | None:
    """Fail where lines that compiled in no captured step take enough of the run's time afterwards; None where none do.

    A line that compiled in captured steps too is a matter of the rule on its cause, which prices it. One that has
    compiled what it compiles, the first evaluation say, cost what it cost once. So did a program that was changed, as
    steps that take another time since then show.
    """
    after = signals.after_capture
    if after is None or not after.compiling_steps or not after.wall_seconds:
        return _seen_by_looks(signals)
    from tpuprof.model.compile.stages import changed_each_time

    lines = [
        each
        for each in _only_after(signals, after)
        if not after.stopped(each, len(signals.steps)) and not changed_each_time(each, after)
    ]
    lines.sort(key=lambda each: -each.seconds)
    seconds, compiling = sum(each.seconds for each in lines), sum(each.cuts for each in lines)
    share = min(seconds / after.wall_seconds, 1.0)
    if share < FAILS_FROM_SHARE or not after.shows(len(signals.steps)):
        return None
    again = occasions(lines) >= RETURNS_FROM_STEPS
    ends = not again and _at_the_end(lines, after)
    per_step = format_ms(seconds * MS_PER_S / after.steps)
    cost = f"it costs {per_step} per step" if again else f"it took {format_ms(seconds * MS_PER_S)} in all"
    return failed(
        share if again else share * MAY_BE_ONCE,
        [_line_evidence(each) for each in lines[:SHOWN]] + rates(signals),
        title=f"After the capture {min(compiling, after.compiling_steps)} of {after.steps_text} compiled: "
        f"{format_share(share)} of that time{AT_THE_END if ends else ''}{'' if again else COMES_AGAIN_UNKNOWN}",
        reason=f"{cost} on top of the captured steps; {UNSEEN_CAUSE}",
        # What they cost was counted; that different graphs are the cause, and not shapes, was not seen.
        confidence="medium" if again else "low",
        cases=frozenset({SELDOM}) if ends and signals.framework == TORCH_XLA else ANY_CAUSE,
    )


def _at_the_end(lines: list[CompilingLine], after: AfterCapture) -> bool:
    """Whether only the last steps of a program that ended compiled."""
    steps = [step for each in lines for step in each.steps]
    return after.ended and not after.estimated and min(steps, default=0) >= (1 - LAST_SHARE) * after.steps


def _seen_by_looks(signals: Signals) -> Outcome | None:
    """Fail where looks at the training thread after a recording by the clock see compiles for enough of the time."""
    seen = signals.compiling_looks_if_seen
    if seen is None:
        return None
    return failed(
        seen.share,
        [
            Evidence(
                "looks at the training thread that saw a compile", seen.share, "share", source=seen.source
            )
        ],
        title=f"After the capture {seen.what}",
        reason="it cannot be priced: no step was seen while the program ran, and what changed is unknown",
        confidence="medium",
        cases=ANY_CAUSE,
    )


def _only_after(signals: Signals, after: AfterCapture) -> list[CompilingLine]:
    """Lines that compiled after the captured steps and in none of them."""
    captured = by_line(signals.step_compiles)
    known = {name or UNKNOWN_LINE for name in captured}
    return [line for name, line in after.lines.items() if name not in known]


def _line_evidence(line: CompilingLine) -> Evidence:
    frame = line.frames[0] if line.frames else ""
    text = f"{counted(line.cuts, 'step')} compiled, {counted(line.graphs, 'graph')}"
    steps = listed([str(step) for step in line.steps], SHOWN)
    source = source_of(frame)
    return Evidence(f"{text}; steps after the capture: {steps}", line.seconds, "s", source=source)
