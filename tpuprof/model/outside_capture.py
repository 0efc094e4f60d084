"""Whether the captured steps are like those that followed, by what the process counted after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tpuprof.model.compile.recurrence import MIN_STEPS_AFTER, AfterCapture
from tpuprof.model.host.samples import HostSamples
from tpuprof.model.host.stacks import Stack
from tpuprof.model.intervals import Int64, Spans, intersect, union
from tpuprof.model.median import median
from tpuprof.model.steps.phase import Phase
from tpuprof.model.steps.table import Steps
from tpuprof.records import record
from tpuprof.report.between import BETWEEN_FROM, COMES_AGAIN, EVALUATION, NOT_CAPTURED
from tpuprof.report.user_frames import Function, user_functions
from tpuprof.units import PS_PER_S, counted, format_ms, format_share, listed, ps_to_ms

# How much longer than a captured step one after the capture must take on average to be worth a word (ratio). Of 36
# programs of the zoo without a known reason, all lay between 0.79 and 1.29 on a busy machine, but one (1.37).
SLOWER_FROM = 1.3
# From where on the verdict itself says so (ratio): half of the run's time is then spent on what the capture lacks.
VERDICT_FROM = 2.0
# How much longer the median captured step must take than one after the capture on average for recording to be what
# slows it down (ratio): below it lies what a busy machine does, see above. In steps of 2 ms, of which tracing takes
# nearly all, sampling and source lines made it 1.4.
STRETCHED_FROM = 1.3
# Share of the sampled time between steps in which the training thread must be at one line for that to be named (share):
# more than at all others together. Waits in the runtime are not sampled.
AT_ONE_LINE = 0.5
# Share of all samples from which a function holds the steps of a host that runs ahead (share): nothing but what calls
# all of a program is in so many. A judgement.
LOOP_FROM_SHARE = 0.9
# Share of all time between steps that it must be, so that it stands for that time (share): a judgement.
OF_ALL_FROM = 0.25
# Lines of a function that are named (lines).
LINES_NAMED = 3
# Share of the steps that what lies between them must come for, and how often, to be a part of each round of the loop
# (share, count): PPO updates a few times per rollout, and an evaluation comes every tenth step or later. Judgements.
ROUND_FROM_SHARE, ROUNDS_FROM = 0.2, 3
# Share of the time between steps from which compiles in it are reported (share): most compile once. A judgement.
COMPILING_FROM_SHARE = 0.1
# Share of what one captured step holds that the steps after the capture must lack for it to come more seldom than the
# capture shows (share): it then is at most half as much of the run. Between that and all of it lies what is unknown:
# captured steps are slower by some hundredths themselves.
SELDOM_FROM = 0.5
# How much longer than the usual step one must be that alone holds a cause, for later steps as long to be counted
# (ratio): noise does not make twice of it. A judgement.
LONG_FROM = 2.0
# Share of its length from which a later step is as long (share): the start of an epoch took 0.8 to 1.2 of its middle.
# Of 167 steps of 58 ms on a busy machine, 13 took 124 ms or more, and 6 held such a start or were as long. A judgement.
AS_LONG_FROM = 0.7
# Share of the time after the capture that compiles may take for the rest to be known (share): compiles and steps are
# timed by clocks of their own, and an error of 5 % in such compiles is 20 % of the rest. A judgement.
COMPILES_TO_SHARE = 0.8

# How much longer compiles of the captured steps take than those after the capture from which a note says so (ratio): a
# fix then saves half of what the capture shows. A judgement.
QUICKER_FROM = 2.0
# Share of the captured rate of compiles, and of their time, that must return for both to be the same (ratio): a rate
# counted in some tens of steps is known to about a tenth. Rules lower their prices to a lower rate, and say so. A
# judgement.
SAME_RATE_FROM = 0.9


@record(frozen=True)
class Outside:
    """Steps after a capture, without their compiles, beside the captured ones: how many, and the mean of each (ps).

    `between` is what lay between the captured steps and is none, such as evaluations: its mean per step (ps).
    `compiling` is the mean of the compiles that are left out of the later ones (ps). `stages` says what they take from
    which compile on, where that is another time each.
    """

    steps: int
    later: float
    captured: float
    between: float = 0.0
    compiling: float = 0.0
    stages: str = ""

    @property
    def slower(self) -> float:
        """How much longer they took than the captured ones with what lay between those (ratio)."""
        return self.later / (self.captured + self.between) if self.captured else 0.0

    @property
    def took(self) -> str:
        """How many they are and what they took, in words: without compiles, and with them where these show.

        Prices are of steps with their compiles.
        """
        without, whole = (format_ms(ps_to_ms(each)) for each in (self.later, self.later + self.compiling))
        with_them = f" ({whole} with them)" if whole != without else ""
        took = f"{self.steps} steps after the capture took {without} on average without compiles{with_them}"
        return took + self.stages


def outside_of(wall_ps: Int64, after: AfterCapture | None, between_ps: int = 0) -> Outside | None:
    """The steps after a capture whose steps took `wall_ps`, and what lay between them; None where that is unknown.

    Too few may have been counted, or nearly all of their time was compiling. A process counts from one step to the
    next, so what lies between steps is in its steps.
    """
    if not len(wall_ps) or after is None or not _counted(after):
        return None
    # Compiles have findings of their own.
    later, compiling = (each / after.steps * PS_PER_S for each in (after.took - after.seconds, after.seconds))
    if after.seconds >= COMPILES_TO_SHARE * after.took:
        quiet = _mean_of_quiet(after)
        if quiet is None:
            return None
        later = quiet
    stages = ""
    if len(after.stages) > 1:
        from tpuprof.model.compile.stages import said_of_stages

        stages = said_of_stages(after, ps_to_ms(float(median(wall_ps))))
    return Outside(after.steps, later, float(wall_ps.mean()), between_ps / len(wall_ps), compiling, stages)


def _mean_of_quiet(after: AfterCapture) -> float | None:
    """The mean of steps that compiled nothing (ps), where enough were timed apart from the others; else None."""
    steps = sum(each.steps for each in after.stages)
    if steps < MIN_STEPS_AFTER:
        return None
    return sum(each.seconds for each in after.stages) / steps * PS_PER_S


def _counted(after: AfterCapture) -> bool:
    """Whether enough steps were seen after the capture for their mean to say something."""
    return not after.estimated and after.steps >= MIN_STEPS_AFTER


def between_steps(steps: Steps) -> int:
    """Time of what is no training between steps, from the first step's begin on (ps): evaluations, and other calls."""
    return sum(each.end - each.start for each in _between(steps))


def beside_steps(steps: Steps) -> Spans:
    """When the host is at what is no training (ps): evaluations, and other calls, also before the first step."""
    return _spans_of(_no_training(steps))


def _between(steps: Steps) -> list[Phase]:
    if not len(steps):
        return []
    begin = int(steps.start.min())
    return [each for each in _no_training(steps) if each.start >= begin]


def _no_training(steps: Steps) -> list[Phase]:
    return [each for each in steps.phases if each.name in COMES_AGAIN and not each.inside]


def _spans_of(phases: list[Phase]) -> Spans:
    times = np.array([(each.start, each.end) for each in phases], np.int64).reshape(-1, 2)
    return union(times[:, 0], times[:, 1])


def lacking(outside: list[Outside | None]) -> float:
    """How much shorter steps are after the capture than in it (ps), the mean of hosts; 0 where one did not count."""
    known = [each for each in outside if each is not None]
    if not known or len(known) < len(outside):
        return 0.0
    return max(sum(each.captured - each.later for each in known) / len(known), 0.0)


def outside_capture(wall_ps: Int64, after: AfterCapture | None, between_ps: int = 0) -> list[str]:
    """What to say of a run whose steps took longer after the capture; empty where they did not, or were not counted.

    `wall_ps` is each captured step's time, `between_ps` what lay between all of them.
    """
    found = outside_of(wall_ps, after, between_ps)
    if found is None or found.slower < SLOWER_FROM:
        return []
    if found.stages:
        why = "other programs run there. Capture them later (`--warmup`)"
    else:
        why = (
            "batches may have been ready before it, a loader may have started its workers again for an epoch, "
            "evaluations or checkpoints may have come later, or the device was behind. Capture more steps (`--steps`), "
            "or later (`--warmup`)"
        )
    return [
        f"the {found.took}; the captured ones took {format_ms(ps_to_ms(found.captured))}. What the "
        f"others spent {NOT_CAPTURED}: {why}"
    ]


def stretched(
    wall_ps: Int64, compile_ps: Int64, after: AfterCapture | None, *, dynamo: bool = False
) -> list[str]:
    """What to say of captured steps that take longer than those after the capture; empty where they do not.

    `compile_ps` is what each step compiled: compiles after the capture are not counted. A few long steps, as with a
    checkpoint, do not move the median. `dynamo`: torch.compile compiled functions again, which no event tells.
    """
    found = outside_of(wall_ps - compile_ps, after)
    if found is None:
        return []
    middle = float(median(wall_ps - compile_ps))
    if middle < STRETCHED_FROM * found.later:
        return []
    slows = "torch.compile compiled again, recording slows" if dynamo else "Recording slows"
    return [
        f"the median captured step took {format_ms(ps_to_ms(middle))}, {middle / found.later:.1f} times what steps "
        f"take without tpuprof: the {found.took}. {slows} the host down, or other work of "
        "the machine did; times and savings here are of captured steps"
    ]


def unrecorded_ps(wall_ps: Int64, after: AfterCapture | None, ratio: float = STRETCHED_FROM) -> float | None:
    """What a step takes after the capture with its compiles (ps), where captured ones take longer by that; else None.

    `ratio` is how many times as long captured ones must take: far longer, by default.
    """
    if not len(wall_ps) or after is None or not _counted(after):
        return None
    later = after.took / after.steps * PS_PER_S
    return later if float(wall_ps.mean()) >= ratio * later else None


def quicker_compiles(compile_ps: Int64, after: AfterCapture | None) -> list[str]:
    """What to say where steps compile after the capture as often as in it, each in far less time; else empty."""
    compiling = compile_ps[compile_ps > 0]
    if after is None or after.estimated or after.steps < MIN_STEPS_AFTER or not len(compiling):
        return []
    if after.compiling_steps / after.steps < SAME_RATE_FROM * len(compiling) / len(compile_ps):
        return []
    later, captured = after.seconds / after.compiling_steps * PS_PER_S, float(compiling.mean())
    if captured < QUICKER_FROM * later:
        return []
    return [
        f"compiling took {format_ms(ps_to_ms(captured))} in each captured step that compiled, and "
        f"{format_ms(ps_to_ms(later))} in the {counted(after.compiling_steps, 'step')} that did so after the capture; "
        "savings here are of captured steps"
    ]


def with_between(
    text: str,
    hosts: list[tuple[Steps, HostSamples | None]],
    *,
    runs_ahead: bool = False,
    compiles: Sequence[Spans] = (),
) -> str:
    """The verdict with what it adds where much of a host's time is no training, between its steps.

    That comes first where it is most of the time, and comes in nearly each round of the loop: a policy that acts before
    each update. `runs_ahead`: the host may be there while the device still works on steps, as in JAX. `compiles` is
    when each host compiles: the first evaluation does, and later ones take less.
    """
    for row, (steps, samples) in enumerate(hosts):
        phases, within = _between(steps), int(steps.wall_ps.sum())
        between = between_steps(steps)
        if not between or between < BETWEEN_FROM * within:
            continue
        compiled = _compiled_in(phases, compiles[row]) if compiles else 0
        of_it = f" ({format_ms(ps_to_ms(compiled))} of it compiling)"
        took = (
            f"took {format_ms(ps_to_ms(between))} of the capture"
            f"{of_it if compiled >= COMPILING_FROM_SHARE * between else ''}, "
            f"and the steps {format_ms(ps_to_ms(within))}."
        ) + _mostly_at(phases, samples, runs_ahead=runs_ahead)
        evaluations = all(each.name == EVALUATION for each in phases)
        if between < within or len(phases) < max(ROUND_FROM_SHARE * len(steps), ROUNDS_FROM):
            what = "evaluations" if evaluations else "other calls (an evaluation or a checkpoint, say)"
            return f"{text} That is of the training steps alone: {what} between them {took}"
        what = "evaluations, or a policy that acts," if evaluations else "other calls"
        cause, bound, rest = text.partition("-bound: ")
        names_it = bound and ":" not in cause
        alone = f" are {cause[0].lower()}{cause[1:]}{bound}{rest}" if names_it else f": {text}"
        return f"Most of the time lies between the training steps: {what} {took} The steps alone{alone}"
    return text


def _compiled_in(phases: list[Phase], compiles: Spans) -> int:
    """How long a host compiles in some phases (ps)."""
    return intersect(compiles, _spans_of(phases)).total


def _mostly_at(phases: list[Phase], samples: HostSamples | None, *, runs_ahead: bool) -> str:
    """The line that the training thread is at for most of some phases, as a sentence; empty where it is at many.

    A line that the rest of the time is at, too, such as a call of a library's trainer, tells nothing. A host that runs
    ahead waits for the steps there.
    """
    if samples is None:
        return ""
    chosen = _spans_of(phases)
    inside: Counter[str] = Counter()
    outside: Counter[str] = Counter()
    calls: Counter[tuple[str, str]] = Counter()
    times = _times(chosen, samples)
    for stack, within, beside in times:
        inside[stack.source] += within
        calls[stack.source, stack.shown] += within
        outside[stack.source] += beside
    line, most = next(iter(inside.most_common(1)), ("", 0))
    always = not runs_ahead and outside[line] > AT_ONE_LINE * outside.total()
    enough = max(AT_ONE_LINE * inside.total(), OF_ALL_FROM * chosen.total)
    if not line or most <= enough or always:
        return _mostly_in(times, chosen.total, enough, runs_ahead=runs_ahead)
    _, call = max((each for each in calls if each[0] == line), key=lambda each: calls[each])
    share = format_share(most / chosen.total)
    return f" For {share} of the time between them the training thread is at {line} ({call})."


def _times(chosen: Spans, samples: HostSamples) -> list[tuple[Stack, int, int]]:
    """Each stack, and for how long the thread is at it within some time and beside it (ps)."""
    found = []
    for row, stack in enumerate(samples.stacks):
        own = union(samples.start[samples.stack == row], samples.end[samples.stack == row])
        within = intersect(own, chosen).total
        found.append((stack, within, own.total - within))
    return found


def _mostly_in(
    times: list[tuple[Stack, int, int]], whole: int, enough: float, *, runs_ahead: bool = False
) -> str:
    """The user's function that the thread is in for most of some time, as a sentence; empty where steps are in it, too.

    Of several, the innermost one. `whole` is that time, `enough` how much of it is most (ps). A host that runs ahead of
    the device is there while the device still works on steps: what it is not in all the time is no loop of them.
    """
    inside: Counter[Function] = Counter()
    outside: Counter[Function] = Counter()
    lines: dict[Function, Counter[str]] = {}
    depths: dict[Function, int] = {}
    for stack, within, beside in times:
        for function, (depth, line) in user_functions(stack.frames).items():
            inside[function] += within
            outside[function] += beside
            lines.setdefault(function, Counter())[line] += within
            depths[function] = max(depths.get(function, 0), depth)
    every = sum(within + beside for _, within, beside in times)
    found = [
        each
        for each, time in inside.items()
        if time > enough
        and (outside[each] < time or (runs_ahead and time + outside[each] < LOOP_FROM_SHARE * every))
    ]
    if not found:
        return ""
    most = max(found, key=lambda each: depths[each])
    name, path, _ = most
    places = [line for line, time in lines[most].most_common() if time]
    where = listed([f"{path}:{places[0]}", *places[1:]], LINES_NAMED, "more line")
    share = format_share(inside[most] / whole)
    return f" For {share} of the time between them the training thread is in {name} ({where})."


def said_with_the_verdict(outside: list[Outside | None], *, cpus_taken: bool = False) -> str:
    """What the verdict adds where steps took far longer after the capture of a host; empty where they did not.

    Where other work had the CPUs (`cpus_taken`), that may be all.
    """
    found = [each for each in outside if each is not None and each.slower >= VERDICT_FROM]
    if not found:
        return ""
    most = max(found, key=lambda each: each.slower)
    if most.stages:
        return f" That is of the captured steps: the {most.took}. Other programs run there, which this capture lacks."
    text = f" That is of the captured steps: the {most.took}, and what holds those up is not in this capture"
    return f"{text}, or is other work of the machine." if cpus_taken else f"{text}."
