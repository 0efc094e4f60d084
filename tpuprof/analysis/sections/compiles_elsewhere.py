"""The verdict of a run that compiles again and again, and whose captured steps hold no compile.

A host that runs ahead of its compiles hands over a few steps in no time, and then waits for all of them: such steps say
nothing of what holds the run up, and what the process counted after them does.
"""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.model.compile.recurrence import RETURNS_FROM_STEPS, AfterCapture, occasions
from tpuprof.model.compile_verdict import COMPILES_FROM_SHARE
from tpuprof.model.decisions import SHARE_OF_TIME, Decisions
from tpuprof.model.host_run import HostRun
from tpuprof.model.step_times import StepTimes
from tpuprof.report.schema import Verdict
from tpuprof.units import format_ms, format_share

# Share of the time after the capture from which compiling is what holds the run up (share): more than all else.
MOST_FROM_SHARE = 0.5
SENTENCE = (
    "Compile-bound: after the capture {compiling} of {steps} compiled, which took {share} of the time there. The "
    "captured steps take {wall} each and hold no compile, so what changed is unknown. Capture {others}."
)
# What is advised where no step was seen while the program ran.
MARK_STEPS = "Mark steps (`tpuprof.step`), and capture as many as hold a compile."
SEEN_BY_LOOKS = (
    "Compile-bound: after the capture {seen}. The captured steps take {wall} each and hold no compile, so what changed "
    "is unknown. " + MARK_STEPS
)


def compiles_elsewhere(hosts: list[HostRun], times: StepTimes, decisions: Decisions) -> Verdict | None:
    """The verdict where compiles after the captured steps hold the run up, and those hold none; None elsewhere."""
    if not times.wall or times.parts.get(part.COMPILE, 0.0) >= COMPILES_FROM_SHARE * times.wall:
        return None
    found = [
        (host.after, host)
        for host in hosts
        if host.after is not None and _goes_on(host.after, len(host.steps))
    ]
    if not found and any(host.looks for host in hosts):
        return _seen_by_looks(hosts, times, decisions)
    if not found or len(found) < len(hosts):
        return None
    after, host = max(found, key=lambda each: each[0].compile_share)
    share = after.compile_share
    if not decisions.at_least(
        "compiles go on after the capture, whose steps hold none; their share of the time there",
        min(each.compile_share for each, _ in found),
        MOST_FROM_SHARE,
        SHARE_OF_TIME,
        yes="they are what holds the run up, whatever the captured steps do",
        no="what the captured steps do is the verdict",
    ):
        return None
    from tpuprof.model.compile.compiling_later import warmup_to_compiles

    warmup = warmup_to_compiles(host)
    said = SENTENCE.format(
        compiling=after.compiling_steps,
        steps=after.steps_text,
        share=format_share(share),
        wall=format_ms(times.wall),
        others="more steps (`--steps`)" if warmup is None else f"later steps (`--warmup {warmup}`)",
    )
    return Verdict("compile", round(share, 6), said)


def _seen_by_looks(hosts: list[HostRun], times: StepTimes, decisions: Decisions) -> Verdict | None:
    """The same where no step was seen while the program ran, and looks at its thread tell of compiles."""
    from tpuprof.model.compile.later_looks import most_compiling

    seen = most_compiling(hosts)
    if seen is None or not decisions.at_least(
        "compiles after the capture, whose steps hold none; their share of the looks at the training thread there",
        seen.share,
        MOST_FROM_SHARE,
        SHARE_OF_TIME,
        yes="they are what holds the run up, whatever the captured steps do",
        no="what the captured steps do is the verdict, and the compiles are said beside it",
    ):
        return None
    said = SEEN_BY_LOOKS.format(seen=seen.what, wall=format_ms(times.wall))
    return Verdict("compile", round(seen.share, 6), said)


def said_of_looks(hosts: list[HostRun]) -> str:
    """What a verdict on the captured steps adds on compiles that looks at the thread saw later; empty where none."""
    if not any(host.looks for host in hosts):
        return ""
    from tpuprof.model.compile.later_looks import most_compiling

    seen = most_compiling(hosts)
    return f" After the capture {seen.what}. {MARK_STEPS}" if seen is not None else ""


def _goes_on(after: AfterCapture, captured: int) -> bool:
    if after.estimated or not after.shows(captured):
        return False
    going_on = [line for line in after.lines.values() if not after.stopped(line, captured)]
    return occasions(going_on) >= RETURNS_FROM_STEPS
