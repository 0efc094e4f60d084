"""Steps that a trace lacks between others: their events were dropped, and the step before would last until the next.

The numbers of the steps that are there say how many are missing. Where a device's steps have no numbers, its work says
it: programs, or ops, run on where no step is recorded.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof.model.device.activity import DeviceActivity, ProgramRuns
from tpuprof.model.intervals import Int64, contains
from tpuprof.model.median import median
from tpuprof.model.steps.phase import NOT_RECORDED, Phase
from tpuprof.model.steps.table import Steps
from tpuprof.units import counted

# Steps from which the distance of two is known (steps): two distances, of which one may be over a hole.
FROM_STEPS = 3
# Share of the usual distance of two steps that each one that is lacking must add to be one (share). Steps of a v6e that
# wait for host copies take 0.79 to 1.25 times the median. A judgement: half.
TAKES_FROM_SHARE = 0.5


def lacking(number: Int64, start: Int64, by_work: Int64 | None = None) -> Int64:
    """How many steps the trace lacks before the next one starts, by step; 0 behind the last.

    `number` is what the steps are called, in time order, -1 where they have no number. `by_work` is how many the
    device's work says, between each two.
    """
    found = np.zeros(len(start), np.int64)
    if len(start) < FROM_STEPS:
        return found
    ahead, pitch = np.diff(number), np.diff(start)
    every, usual = round(median(ahead)), median(pitch)
    if (number >= 0).all() and every > 0:
        lack = np.where((ahead > every) & (ahead % every == 0), ahead // every - 1, 0)
    elif by_work is not None:
        lack = by_work
    else:
        return found
    # Numbers that jump where no time passes are names.
    found[:-1] = np.where(pitch >= (1 + TAKES_FROM_SHARE * lack) * usual, lack, 0)
    return found


def far_apart(start: Int64) -> bool:
    """Whether two steps are so far apart that the trace may lack one between them."""
    if len(start) < FROM_STEPS:
        return False
    pitch = np.diff(start)
    return bool((pitch >= (1 + TAKES_FROM_SHARE) * median(pitch)).any())


def by_programs(start: Int64, runs: ProgramRuns) -> Int64:
    """How many steps are lacking between each two, by the runs of the program that takes most of the time."""
    return np.maximum(_beside_one(start, _of_longest(runs.program, runs.start, runs.end - runs.start)), 0)


def by_other(start: Int64, own: ProgramRuns, other: ProgramRuns) -> Int64:
    """The same by what another device ran, of the same program.

    It ends there a little earlier or later: what is counted are ends half a step before and half a step after. It may
    begin there long before, and wait.
    """
    ends, of_other = (_of_longest(runs.program, runs.end, runs.end - runs.start) for runs in (own, other))
    after = np.searchsorted(ends, start, "right")
    has = after < len(ends)
    if not has.any():
        return np.zeros(len(start) - 1, np.int64)
    phase = median(ends[after[has]] - start[has])
    more = _beside_one(start + round(phase - median(np.diff(start)) / 2), of_other)
    # One more, and none in the next: it ran that one before, and the two are not in step.
    fewer = np.minimum(np.concatenate(([0], more, [0])), 0)
    return np.maximum(more + fewer[:-2] + fewer[2:], 0)


def by_ops(start: Int64, device: DeviceActivity) -> Int64:
    """How many steps are lacking between each two, by ops that ran in no program: that run's event was dropped."""
    begin, unseen = _longest_op(device)
    return _in_steps(_between(start, unseen), _between(start, begin))


def with_ends(steps: Steps, device: DeviceActivity) -> Steps:
    """The steps of a device's programs, with what its ops say of steps before the first and after the last.

    Those ops ran in no program of the trace: the events of their programs were dropped.
    """
    begin, unseen = _longest_op(device)
    per_step = median(_between(steps.start, begin)) if len(steps) >= FROM_STEPS else 0
    if not per_step:
        return steps
    ends = [
        (unseen[unseen < steps.start[0]], "before the first one", int(steps.number[0])),
        (unseen[unseen >= steps.end[-1]], "after the last one", int(steps.number[-1]) + 1),
    ]
    phases, told = [], []
    for times, where, number in ends:
        lack = round(len(times) / per_step)
        if lack:
            text = f"the trace lacks the programs of {counted(lack, 'step')} {where}"
            told.append(f"{text}, of which it has ops")
            phases.append(Phase(NOT_RECORDED, int(times[0]), int(times[-1]), 0, text, number))
    if not told:
        return steps
    return replace(
        steps,
        note=steps.noted(f"{' and '.join(told)}: they are not counted"),
        phases=tuple(sorted([*steps.phases, *phases], key=lambda each: each.start)),
    )


def _longest_op(device: DeviceActivity) -> tuple[Int64, Int64]:
    """When the op that takes most of a device's time begins, and those of these times that are in no program."""
    events = device.op_events
    begin = _of_longest(events.op, events.start, events.self_ps)
    return begin, begin[~contains(device.executing, begin)]


def _of_longest(label: Int64, time: Int64, length: Int64) -> Int64:
    """Such times of the label that takes most of the time, in order."""
    return np.sort(time[label == np.bincount(label, length).argmax()]) if len(time) else time


def _beside_one(start: Int64, times: Int64) -> Int64:
    """How many steps' times lie between each two steps beside those of one; -1 where there is none."""
    counts = _between(start, times)
    return _in_steps(counts, counts) - 1


def _between(start: Int64, begin: Int64) -> Int64:
    """How many of the times are between each two steps."""
    found: Int64 = np.diff(np.searchsorted(begin, start))
    return found


def _in_steps(counts: Int64, of_all: Int64) -> Int64:
    """How many steps that many are, of which `of_all` are between each two."""
    per_step = median(of_all) if len(of_all) else 0
    return np.rint(counts / per_step).astype(np.int64) if per_step else np.zeros(len(counts), np.int64)


def without_holes(steps: Steps, own_end: Int64, lack: Int64) -> Steps:
    """The steps, none of which lasts over others that the trace lacks: what is left there is of no step.

    `own_end` is when the trace says that each ended, `lack` how many it lacks behind each.
    """
    if not lack.any():
        return steps
    usual = round(median(np.diff(steps.start)[lack[:-1] == 0])) if (lack[:-1] == 0).any() else 0
    until = np.minimum(np.maximum(own_end, steps.start + usual), steps.end)
    end = np.where(lack > 0, until, steps.end)
    phases = [
        Phase(
            NOT_RECORDED,
            int(end[row]),
            int(steps.end[row]),
            0,
            _evidence(int(lack[row])),
            int(steps.number[row + 1]),
        )
        for row in np.flatnonzero(lack).tolist()
        if end[row] < steps.end[row]
    ]
    total = int(lack.sum())
    it = "it is" if total == 1 else "they are"
    note = f"the trace lacks {counted(total, 'step')} between others: {it} not counted, and that time is of no step"
    return replace(
        steps,
        end=end,
        note=steps.noted(note),
        phases=tuple(sorted([*steps.phases, *phases], key=lambda each: each.start)),
    )


def _evidence(lack: int) -> str:
    return f"the trace lacks {counted(lack, 'step')} between two others"
