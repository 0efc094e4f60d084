"""Some steps take longer than the others.

## What it detects

Steps in which the device idles longer than in the others (by a quarter of the median step), where that adds at
least a tenth to the mean step, and the trace names what the host did then: a checkpoint, garbage collection, an
annotation of yours, waiting for input, reading a value, or what stack samples saw. Of several causes the one that costs
most is named, with the steps that have it. Steps that compile are left out: compiles have rules of their own, and what
else takes longer in such a step (the first run of the new program, a wait for it) goes with them. What a step with a
checkpoint reads, writes and waits for more than others counts as the checkpoint's.

## Why it costs time

Saving a checkpoint, evaluating, logging or collecting garbage in the training thread stops the device for that long,
and every other host with it.

## Evidence

The slow steps, how long each took, and what grew in them; the line of that (of the checkpoint, the read, the sleep)
where samples show it. The title counts the steps of its cause, and says how many more are slow for other reasons. Where
the trace does not name a cause, the rule passes and shows the steps: a busy machine, batches that arrive in bursts and
a host that runs ahead of its device look the same. So does one slow step alone with a copy, a read or a wait of less
than 10 ms. It passes, too, where samples see the host do the same in the other steps, while the device works: then the
work is no larger in the slow steps.

Work that comes more seldom is in no captured step. So tpuprof goes on to time steps after the capture, and looks where
the training thread is in one that takes longer than usual. The rule fails where such steps take at least a tenth of
that time beyond the usual, the captured steps are shorter on average, and the thread is then at a place at which the
captured steps never are, or the long steps come at a steady rate. There is no price: a replay needs a captured step.
Of a JAX program without marks no step is seen after a recording. There the rule fails where the thread is at a place
again and again, for a tenth of the time at least, at which it never was while it was recorded.

## How to fix

[work] Do the work less often, where that is enough: "save the best model" on a loss that falls saves all the time, so
let some steps pass between two. Else do it beside training: copy what it needs to the host, and do it in another
thread, whose results then come some steps later; with SPMD,
`torch_xla.experimental.distributed_checkpoint.CheckpointManager` has save_async. Log from a closure
(`xm.add_step_closure(..., run_async=True)`), and evaluate in a job of its own.

[input] Some batches come late. Where the DataLoader has no workers, give it some (`num_workers`). Where batches of
workers come in bursts, let more be made ahead (`prefetch_factor`). Where an epoch begins, keep the workers
(`persistent_workers=True`). Where training is faster than its batches, see input-starved.

[gc] Some steps wait for garbage collections. Call `gc.freeze()` when training begins: what exists then is not walked
again. Leave `gc.collect()` out of the loop, or call it where nothing waits.

[gil] Some steps wait for Python's lock (the GIL), which another thread holds. Move that thread's Python to a process of
its own, and have a thread that waits for something block (`queue.put`, `event.wait`), and not look again and again.

[profiler] torch.profiler records again and again. Take it out, or let its schedule end: `torch.profiler.schedule(...,
repeat=1)`. Recording stacks (`with_stack=True`) takes most of its time.

[read] Some steps wait for a value from the device. Read it less often, or see device-to-host-sync.

## How to fix in TorchTPU

Look at what differs in the slow steps, on the timeline and in the table of steps: a compile, a slow batch, a
checkpoint, a read for logging. Do it less often, or in another thread.

## How to fix in JAX

[input] Some batches come late. Where batches come in bursts, let more be made ahead. Where training is faster than its
batches, see input-starved.

[gc] Some steps wait for garbage collections. Call `gc.freeze()` when training begins: what exists then is not walked
again. Leave `gc.collect()` out of the loop, or call it where nothing waits.

[gil] Some steps wait for Python's lock (the GIL), which another thread holds. Move that thread's Python to a process of
its own, and have a thread that waits for something block (`queue.put`, `event.wait`), and not look again and again.

[read] Some steps wait for a value from the device. Read it less often, or see device-to-host-sync.

[work] Do the work beside training: save checkpoints asynchronously, log from another thread, and evaluate in a job of
its own. Orbax's CheckpointManager and AsyncCheckpointer save in threads: call `wait_until_finished()` once, after
training, since in the loop it waits for each save. Save less often where one save takes longer than the steps between
two.

## Limits and false positives

The capture must be long enough to hold slow steps in their true proportion: with one in a hundred, a capture of eight
steps sees too many or none. Where the lengths of later steps were noted, the rule passes if so few of them are as long
that they cost less than a tenth of the time. Else the price assumes the proportion of the capture. A cause that was
seen in one step may not return: confidence is low then, and the price begins at nothing. Where other work has the CPUs,
the same work takes longer in some steps than in others: the rule passes where the others do as much of it as the slow
ones have more.

## References

- https://docs.pytorch.org/xla/release/r2.9/perf/spmd_distributed_checkpoint.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tpuprof import parts as part
from tpuprof.model.intervals import Int64
from tpuprof.model.median import median
from tpuprof.model.outside_capture import AS_LONG_FROM, LONG_FROM
from tpuprof.model.step_columns import Float64, Step, StepColumns
from tpuprof.model.steps.table import TYPICAL_UP_TO
from tpuprof.report.host_lines import LINE_FROM_SHARE, Where, lines_of, verb_at, where_of
from tpuprof.report.schema import Evidence
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.base import FAILED, Outcome, counterfactual, failed, not_applicable, passed, rule
from tpuprof.rules.shared.one_call import comes_again
from tpuprof.rules.shared.slow_step_causes import NAMED, causes_of, costliest, read_and_worked_on
from tpuprof.rules.thresholds import (
    SAMPLED_FROM_MS,
    UNEVEN_CAUSE_FROM_SHARE,
    UNEVEN_FROM_SHARE,
    UNEVEN_MIN_STEPS,
    UNEVEN_ONCE_FROM_MS,
    UNEVEN_RECURS_FROM,
)
from tpuprof.signals import Signals
from tpuprof.simulate.change import Change
from tpuprof.units import MS_PER_S, PS_PER_MS, counted, format_ms, format_share

if TYPE_CHECKING:
    from tpuprof.model.later_places import LaterPlace
    from tpuprof.model.long_later import LongLater

SHOWN = 8
# Share of later steps that take as long from which these are the usual ones, and the short ones of the capture the
# exception (share): a full queue of batches was used up while eight steps were recorded. A judgement: most of them.
USUAL_FROM_SHARE = 0.5
# Why it passes where nothing says what slow steps do.
UNSEEN = "noise of the machine, batches that arrive in bursts and a host that runs ahead look the same"
# Why it passes where slow steps wait for the work of all steps.
FOR_ALL = "slow steps read values, and wait for work that takes as long without them"
# Causes with advice of their own.
_CASES = {
    part.INPUT_WAIT: "input",
    part.HOST_TO_DEVICE: "input",
    part.HOST_SYNC: "read",
    part.GARBAGE: "gc",
    f"{part.HOST_PREFIX}gil": "gil",
}


@rule(
    about="evenness of the steps",
    good="Uneven steps cost little or nothing",
    bad="Some steps take longer than the others",
    broad=True,
    reads=(
        "steps",
        "steadiness",
        "slowest_host_steps",
        "idle_by_step",
        "even_rows",
        "stacks_if_sampled",
        "sees_device",
        "unfinished_ms",
        "own_waits_ms",
        "cpus_shared",
        "after_capture",
        "long_later_steps",
    ),
)
def check(signals: Signals) -> Outcome:
    """Fail where slow steps' excess over typical ones is enough of the time and what they did is known."""
    outcome = _in_the_capture(signals)
    later = signals.long_later_steps
    return outcome if outcome.status == FAILED or later is None else _afterwards(later)


def _afterwards(later: LongLater | LaterPlace) -> Outcome:
    """Fail for steps after the capture, of which no captured one tells, or for a place at which none of them is."""
    # Most runs have none, and a plain analysis starts faster without it.
    from tpuprof.model.later_places import LaterPlace

    if isinstance(later, LaterPlace):
        return failed(
            later.share,
            [Evidence("time after the capture at this place", later.share, "share", source=later.source)],
            title=f"{later.what}, and in none of the captured steps",
            reason="the captured steps hold none of it, so no replay can price it",
            confidence="medium",
            cases=frozenset({"work"}),
        )
    excess_ms = (later.took_ms - later.usual_ms) * later.steps / later.judged
    where = f"; beside the usual work, the training thread is {later.place} then" if later.place else ""
    return failed(
        later.share,
        [
            Evidence("long steps after the capture", later.took_ms, "ms", source=later.source),
            Evidence("the usual step there", later.usual_ms, "ms"),
        ],
        title=f"{later.what}: {format_share(later.share)} of the time there{where}",
        reason=f"it costs {format_ms(excess_ms)} per step on top of the captured steps, none of which is as long",
        confidence="medium" if later.place else "low",
        cases=frozenset({"profiler" if later.profiles else "work"}),
    )


def _in_the_capture(signals: Signals) -> Outcome:
    """Fail for slow steps of the capture."""
    if len(signals.steps) < UNEVEN_MIN_STEPS:
        return not_applicable(
            f"the capture is too short to tell a rhythm: {counted(len(signals.steps), 'step')}"
        )
    even, slow = signals.even_rows
    if not len(slow):
        return passed()
    rows, idle = signals.slowest_host_steps, signals.idle_by_step
    excess = idle[slow] - sum(idle[even].tolist()) / len(even)
    evidence = [_evidence(signals, rows.step(row)) for row in slow[:SHOWN].tolist()]
    wall = sum(rows.wall_ms.tolist())
    if sum(excess.tolist()) / wall < UNEVEN_FROM_SHARE:
        return passed(evidence)
    call = read_and_worked_on(signals, rows)
    cause, of_cause = costliest(causes_of(rows, even, slow, excess, call), excess)
    waits = cause == part.HOST_SYNC and not signals.sees_device and _waits_for_work(signals, excess, of_cause)
    if waits:
        excess = _without_work_of_all(signals, rows.parts[cause][slow], slow, excess)
    share = sum(excess[of_cause].tolist()) / wall
    if share < UNEVEN_FROM_SHARE or _is_accident(cause, sum(excess[of_cause].tolist()), len(of_cause)):
        unknown = f"{_what(len(slow), len(rows))}; no recurring cause was seen"
        return passed(evidence, title="" if waits else unknown, reason=FOR_ALL if waits else UNSEEN)
    even_so = _even_so(signals, cause, of_cause) or _takes_longer(
        signals, rows.parts[cause], even, slow[of_cause]
    )
    own = slow[of_cause].tolist()
    even_so = even_so or _too_seldom(signals, rows, even, own, float(excess[of_cause].mean()))
    if even_so:
        return passed(evidence, reason=even_so)
    recurs = len(own) >= UNEVEN_RECURS_FROM or _later(signals, call)
    # Slow steps of other causes stay.
    gone = Change(steps=frozenset(range(len(rows))).difference(own))
    where = _where(signals, cause, _held(rows, cause, own))
    if where is not None:
        evidence.insert(0, Evidence(part.noun_of(cause), where.ms, "ms per step", source=where.source))
    at = f" at {where.text}" if where is not None else ""
    return failed(
        share,
        evidence,
        title=f"{_what(len(own), len(rows))} ({_against(rows, even, slow.tolist(), own, cause)}), "
        f"mostly {_because(cause, where, signals.stacks_if_sampled)}{at}: {format_share(share)} of the time",
        price=counterfactual(gone) if recurs else counterfactual(gone, Change()),
        confidence="medium" if recurs else "low",
        cases=frozenset({_CASES.get(cause, "work")}),
    )


def _later(signals: Signals, call: str) -> bool:
    """Whether later steps, too, are long at this call."""
    after = signals.after_capture
    return (
        bool(call)
        and after is not None
        and after.long.steps >= UNEVEN_RECURS_FROM
        and comes_again(after.long, call)
    )


def _is_accident(cause: str, excess_ms: float, steps: int) -> bool:
    """Whether so much more time in so many steps may be chance: a sample or two, or one call on a busy machine."""
    if cause.startswith(part.HOST_PREFIX):
        return excess_ms < SAMPLED_FROM_MS
    return cause in NAMED and steps < UNEVEN_RECURS_FROM and excess_ms < UNEVEN_ONCE_FROM_MS


def _even_so(signals: Signals, cause: str, of_cause: list[int]) -> str:
    """Why the work of the steps is even although some take longer; empty where it is not."""
    if _in_each_step(signals, cause, len(signals.steps) / len(of_cause)):
        return "the host does the same in the other steps, while the device works"
    return ""


def _too_seldom(signals: Signals, rows: StepColumns, even: Int64, own: list[int], excess_ms: float) -> str:
    """Why slow steps are no few that matter: hardly any later one takes as long, or most do.

    Empty where some do, or where that was not noted.
    """
    after, shortest = signals.after_capture, float(rows.wall_ms[own].min())
    usual = median(rows.wall_ms[even])
    if after is None or not after.took or shortest < LONG_FROM * usual:
        return ""
    # Recording makes steps longer: later ones are as long by what is usual there.
    shorter = min(after.long.usual_seconds * MS_PER_S / usual, 1.0) or 1.0
    share = after.share_of_longer(AS_LONG_FROM * shortest * shorter * PS_PER_MS)
    later_ms = after.took * MS_PER_S / after.steps
    if share is None:
        return ""
    text = f"{format_share(share)} of {after.steps_text} after the capture took as long"
    if share >= USUAL_FROM_SHARE:
        return f"{text}; that is the usual step there"
    return text if share * excess_ms < UNEVEN_FROM_SHARE * later_ms else ""


def _takes_longer(signals: Signals, spent: Float64, even: Int64, own: Int64) -> str:
    """Why slow steps may do what the others do, where these do as much of it (ms) as slow ones have more."""
    usual = float(spent[even].mean())
    if signals.cpus_shared and usual >= float(spent[own].mean()) - usual > 0:
        return "the other steps do as much of the same, and other work had the CPUs: it takes longer in some"
    return ""


def _without_work_of_all(signals: Signals, reads: Float64, slow: Int64, excess: Float64) -> Float64:
    """The excess of slow steps without what their reads wait for work of all steps: that takes as long without them."""
    of_all = np.maximum(reads - signals.own_waits_ms[slow], 0.0)
    without: Float64 = np.maximum(excess - of_all, 0.0)
    return without


def _waits_for_work(signals: Signals, excess: Float64, of_cause: list[int]) -> bool:
    """Whether most of what slow steps take longer is the device's work of all steps, which they wait for."""
    per_step = sum(excess[of_cause].tolist()) / len(signals.steps)
    return bool(signals.unfinished_ms >= UNEVEN_CAUSE_FROM_SHARE * per_step)


def _in_each_step(signals: Signals, cause: str, steps_per_slow: float) -> bool:
    """Whether the host does behind device work, in each step, most of what slow steps have exposed.

    Of a line whose exposed time all lies in the slow steps they have `steps_per_slow` times its mean.
    """
    lines = [
        (exposed * steps_per_slow, hidden)
        for _, _, exposed, hidden in lines_of(signals.stacks_if_sampled, cause)
    ]
    of_slow = sum(exposed for exposed, _ in lines)
    usual = sum(min(exposed, hidden) for exposed, hidden in lines)
    return bool(of_slow) and usual >= UNEVEN_CAUSE_FROM_SHARE * of_slow


def _held(rows: StepColumns, cause: str, own: list[int]) -> float:
    """Share of all the time of a cause that its slow steps hold."""
    return float(sum(rows.parts[cause][own].tolist()) / sum(rows.parts[cause].tolist()))


def _where(signals: Signals, cause: str, held: float) -> Where | None:
    """Where samples see the host at what makes steps slow; None where they do not, or see it in too many places.

    Samples are of all steps. A line has half of what the slow ones hold (`held`, share) if it does so even where all
    that the other steps have of the cause is at that line.
    """
    stacks = signals.stacks_if_sampled
    where = where_of(stacks, cause)
    seen = sum(exposed for _, _, exposed, _ in lines_of(stacks, cause))
    enough = 1 - (1 - LINE_FROM_SHARE) * held
    return where if where is not None and where.source and where.ms >= enough * seen else None


def _what(slow: int, steps: int) -> str:
    return f"{slow} of {counted(steps, 'step')} {'takes' if slow == 1 else 'take'} longer"


def _against(rows: StepColumns, even: Int64, slow: list[int], own: list[int], cause: str) -> str:
    """How long the slow steps of a cause take, and the others; how many of these are longer for another one, or too."""
    takes, usual = format_ms(median(rows.wall_ms[own])), format_ms(median(rows.wall_ms[even]))
    in_median = " in the median" if len(own) > 1 else ""
    # Slow ones idle longer. Not each of them takes longer: its device may work for less.
    limit = TYPICAL_UP_TO * median(rows.wall_ms)
    longer = [row for row in slow if row not in own and rows.wall_ms[row] > limit]
    if not longer:
        return f"{takes}, the others {usual}{in_median}"
    of_cause = rows.parts[cause]
    enough = UNEVEN_CAUSE_FROM_SHARE * median(of_cause[own])
    alike = sum(of_cause[row] >= enough for row in longer)
    return f"{takes}{in_median}, the usual step {usual}; {_more(alike, len(longer) - alike)}"


def _more(alike: int, unlike: int) -> str:
    """So many more steps are slow for the same and more, and so many for something else."""
    same = f"{counted(alike, 'more step')} {'has' if alike == 1 else 'have'} that and other work"
    other = (
        "1 more step is slow for another reason"
        if unlike == 1
        else f"{unlike} more steps are slow for other reasons"
    )
    return f"{same}, {other}" if alike and unlike else same if alike else other


def _because(cause: str, where: Where | None, stacks: list[HostStackRow]) -> str:
    if cause.startswith(part.HOST_PREFIX):
        return f"because the host {verb_at(cause, where, stacks)}"
    return f"for {part.noun_of(cause)}"


def _evidence(signals: Signals, step: Step) -> Evidence:
    """A slow step with what grew in it, where it stands out enough to tell; else with its largest part."""
    outlier = next(
        (
            row
            for row in signals.steadiness.outliers
            if (row.step, row.host) == (step.index, step.host) and row.reasons
        ),
        None,
    )
    if outlier is not None:
        grew = ", ".join(f"{name} by {format_ms(ms)}" for name, ms in outlier.reasons.items())
        text = f"step {step.index} grew in {grew}"
    else:
        largest = max(step.breakdown_ms, key=lambda name: step.breakdown_ms[name], default="unknown")
        text = f"step {step.index}, mostly {largest}"
    return Evidence(
        text,
        step.wall_ms,
        "ms",
        host=step.host,
        step=step.index,
        start_ns=step.start_ns,
        duration_ms=step.wall_ms,
    )
