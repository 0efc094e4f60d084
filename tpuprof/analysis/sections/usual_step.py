"""What holds the usual step back, where one captured step holds a cause that comes seldom.

The mean of eight steps is mostly the one in which Python collected garbage for a third of a second. What the process
counted after the capture says how seldom such a step comes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof import parts as part
from tpuprof.analysis.sections.without_compiles import without_compiles
from tpuprof.model.compile.recurrence import MIN_STEPS_LEFT
from tpuprof.model.compile_verdict import compile_word
from tpuprof.model.decisions import MS, SHARE, Decisions
from tpuprof.model.host_run import HostRun
from tpuprof.model.in_few_steps import few_of
from tpuprof.model.median import median
from tpuprof.model.outside_capture import AS_LONG_FROM, LONG_FROM, SELDOM_FROM, lacking, outside_of
from tpuprof.model.step_times import Bound, StepTimes, with_some, without_part, without_some
from tpuprof.model.verdict import bound_of
from tpuprof.model.verdict_words import READS_IN_STEPS_SHARE, spoken
from tpuprof.records import record
from tpuprof.units import counted, format_ms, format_share, ps_to_ms

# Cost of what holds steps without a compile back, over what later compiles cost per step, from which the verdict names
# it as well (ratio): a program computed metrics for 46 of 58 ms, and "compile-bound" was all that it said, of 19 ms. A
# judgement.
BESIDE_COMPILES_FROM = 0.5
# Words of what costs nothing by itself.
_NO_COST = ("device", "unknown", part.COMPILE)


@record(frozen=True)
class UsualStep:
    """The bound, of which mean step it is, and what the verdict adds (empty where that is the captured steps' mean).

    `others` is the mean step without compiles, where those stay the bound and something else costs about as much.
    """

    bound: Bound
    times: StepTimes
    note: str = ""
    others: UsualStep | None = None


def usual_step(hosts: list[HostRun], bound: Bound, times: StepTimes, decisions: Decisions) -> UsualStep:
    """The bound of the mean step `times`, or of one with less of a cause that one captured step holds.

    Only where steps after the capture lack at least half of it, and something else is then the bound. Compiles are
    counted after the capture: they may come more seldom than in several captured steps, too.
    """
    as_captured = UsualStep(bound, times)
    if bound.word == part.COMPILE:
        return _usual_compiles(hosts, as_captured, decisions)
    if bound.again:
        return as_captured
    spent = spent_of(hosts, bound, times)
    outside = [outside_of(host.steps.wall_ps, host.after_steps) for host in hosts]
    rarer = _rarer(hosts, spent) if few_of(spent) == 1 else 0.0
    # Compiles that never came again go first: they prolonged the captured steps beside what is looked at here.
    base = without_part(times, part.COMPILE) if _never_again(hosts) else times
    less = max(ps_to_ms(lacking(outside)) - (times.wall - base.wall), rarer * bound.ms)
    if few_of(spent) != 1 or not less:
        return as_captured
    what = spoken(bound)
    if not decisions.at_least(
        f"what steps after the capture lack, beside {SELDOM_FROM:g} times {what}, which one captured step holds",
        less,
        SELDOM_FROM * bound.ms,
        MS,
        yes="it comes more seldom than the capture shows: the step is looked at without that much of it",
        no="it may come as often as the capture shows",
    ):
        return as_captured
    share = min(less / bound.ms, 1.0)
    rest = without_some(base, {name: share * times.parts[name] for name in _parts_of(bound, times)})
    usual = bound_of(rest, decisions)
    if (usual.word, usual.name) == (bound.word, bound.name) or _comes_as_often(
        hosts, spent, bound, decisions
    ):
        return as_captured
    took = max((each for each in outside if each is not None), key=lambda each: each.steps).took
    seldom = (
        "few steps after the capture took as long"
        if rarer * bound.ms >= less
        else f"the {took}, so that comes more seldom than the capture shows, or takes less"
    )
    return UsualStep(
        usual,
        rest,
        f" That is the usual step. 1 of {counted(len(spent), 'captured step')} also holds {what} "
        f"({format_ms(bound.ms)} per step on average): {seldom}.",
    )


def _comes_as_often(hosts: list[HostRun], spent: list[float], bound: Bound, decisions: Decisions) -> bool:
    """Whether looks at later steps find the thread where the captured one spent its time, for about as much of it.

    Means do not tell it where recording, or other work of the machine, makes all captured steps longer.
    """
    # Imported here, as below: few captures hold a cause in one step alone.
    from tpuprof.model.comes_again import later_cost

    row = int(np.argmax(spent))
    for host in hosts:
        if row < len(host.steps):
            later = later_cost(host, row)
            return later is not None and decisions.at_least(
                f"what later steps spend at the lines of {spoken(bound)}, beside {SELDOM_FROM:g} times what it costs",
                later,
                SELDOM_FROM * bound.ms,
                MS,
                yes="it comes about as often as the capture shows",
                no="it comes more seldom than the capture shows",
            )
        row -= len(host.steps)
    return False


def _never_again(hosts: list[HostRun]) -> bool:
    """Whether captured steps compile, enough others do not, and no step of many that followed did."""
    return MIN_STEPS_LEFT <= _quiet(hosts) < sum(len(each.steps) for each in hosts) and all(
        each.after is not None and each.after.shows(len(each.steps)) and not each.after.compiling_steps
        for each in hosts
    )


def _quiet(hosts: list[HostRun]) -> int:
    """How many captured steps do not compile."""
    return sum(int((each.breakdown.parts[part.COMPILE] == 0).sum()) for each in hosts)


def _rarer(hosts: list[HostRun], spent: list[float]) -> float:
    """How much more seldom than in the capture a step is as long as the one that holds it all (share of 0 to 1).

    0 where the lengths of later steps were not noted, where it is not much longer than the usual step, and where other
    steps of the capture are as long without that cause.
    """
    wall = np.concatenate([host.steps.wall_ps for host in hosts])
    row = int(np.argmax(spent))
    enough, usual = AS_LONG_FROM * float(wall[row]), float(median(np.delete(wall, row)))
    later = [host.after_steps.share_of_longer(enough) for host in hosts if host.after_steps is not None]
    known = [each for each in later if each is not None]
    if not known or wall[row] < LONG_FROM * usual or int((wall >= enough).sum()) != 1:
        return 0.0
    return max(1.0 - max(known) * len(wall), 0.0)


def _usual_compiles(hosts: list[HostRun], captured: UsualStep, decisions: Decisions) -> UsualStep:
    """The bound of the mean step with as much compiling as steps after the capture have, where that is much less.

    Only where some captured steps do not compile: the others do not tell what a step does without it.
    """
    host = max(hosts, key=lambda each: each.after.steps if each.after is not None else 0)
    after, share = host.after, captured.bound.share
    quiet = _quiet(hosts)
    count = sum(len(each.steps) for each in hosts)
    if after is None or not after.shows(len(host.steps)) or quiet < MIN_STEPS_LEFT:
        return captured
    later = after.compile_share
    if not decisions.at_least(
        f"compiling in captured steps, beside {1 / SELDOM_FROM:g} times its share of those after the capture",
        share,
        later / SELDOM_FROM,
        SHARE,
        yes="compiles come more seldom than the capture shows: the step is looked at with as many as come later",
        no="they come about as often as the capture shows",
    ):
        return captured
    alone = without_compiles(hosts, captured.times)
    rest = with_some(alone, part.COMPILE, alone.wall * later / (1 - later))
    usual = bound_of(rest, decisions)
    seldom = (
        f"{after.compiling_steps} of {after.steps_text} after the capture {compile_word(after.compiling_steps)}, which "
        f"takes {format_share(later)} of the time there."
    )
    if usual.word == part.COMPILE:
        return replace(captured, note=f" But only {seldom}", others=_beside(alone, usual.ms, decisions))
    compile_ms = format_ms(captured.times.parts[part.COMPILE])
    return UsualStep(
        usual,
        rest,
        f" That is the mean step with as many compiles as come after the capture. {count - quiet} of "
        f"{counted(count, 'captured step')} {compile_word(count - quiet)} ({compile_ms} per step on average), but only "
        f"{seldom}",
    )


def _beside(alone: StepTimes, compile_ms: float, decisions: Decisions) -> UsualStep | None:
    """What holds the steps without a compile back, where it costs about as much as later compiles; else None."""
    bound = bound_of(alone)
    if bound.word in _NO_COST or not decisions.at_least(
        f"{spoken(bound)} in steps without a compile, beside {BESIDE_COMPILES_FROM:g} times the later compiles",
        bound.ms,
        BESIDE_COMPILES_FROM * compile_ms,
        MS,
        yes="the verdict names both",
        no="compiles cost clearly more",
    ):
        return None
    return UsualStep(bound, alone)


def spent_of(hosts: list[HostRun], bound: Bound, times: StepTimes) -> list[float]:
    """The bound's cost in each step of all hosts (ms); empty where it may be the device's own, or that of turns."""
    reads = bound.word == "sync" and times.reads_share >= READS_IN_STEPS_SHARE
    if reads or bound.turns or bound.by_turns or bound.waits or bound.is_either or bound.word == "device":
        return []
    wanted = set(_parts_of(bound, times))
    spent: list[float] = []
    for host in hosts:
        columns = [column for name, column in host.breakdown.parts.items() if name in wanted]
        spent += [ps_to_ms(int(ps)) for ps in sum(columns, 0 * host.steps.wall_ps).tolist()]
    return spent


def _parts_of(bound: Bound, times: StepTimes) -> list[str]:
    """The parts of a step that a bound is made of."""
    name = part.USER_PREFIX + bound.name
    return [
        each
        for each in times.parts
        if (each == name if bound.name else part.part_of(each).word == bound.word)
    ]
