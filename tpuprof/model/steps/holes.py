"""Steps that a trace lacks between others: their events were dropped, and the step before would last until the next.

The numbers of the steps that are there say how many are missing. Where a device's steps have no numbers, its programs
say it: they run on where no step is recorded.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof.model.device.activity import ProgramRuns
from tpuprof.model.intervals import Int64
from tpuprof.model.median import median
from tpuprof.model.steps.phase import NOT_RECORDED, Phase
from tpuprof.model.steps.table import WHOLE_FROM_SHARE, Steps
from tpuprof.units import counted

# Steps from which the distance of two is known (steps): two distances, of which one may be over a hole.
FROM_STEPS = 3


def lacking(number: Int64, start: Int64, runs: ProgramRuns | None = None) -> Int64:
    """How many steps the trace lacks before the next one starts, by step; 0 behind the last.

    `number` is what the steps are called, in time order, -1 where they have no number; `runs` is what the device ran.
    """
    found = np.zeros(len(start), np.int64)
    if len(start) < FROM_STEPS:
        return found
    ahead, pitch = np.diff(number), np.diff(start)
    every, usual = round(median(ahead)), median(pitch)
    if (number >= 0).all() and every > 0:
        lack = np.where((ahead > every) & (ahead % every == 0), ahead // every - 1, 0)
    elif runs is not None:
        lack = _by_work(start, int(usual), runs)
    else:
        return found
    # Numbers that jump where no time passes are names.
    found[:-1] = np.where(pitch >= (1 + WHOLE_FROM_SHARE * lack) * usual, lack, 0)
    return found


def _by_work(start: Int64, usual: int, runs: ProgramRuns) -> Int64:
    """How many steps' runs of the program that takes most of the time begin between steps that are far apart."""
    none = np.zeros(len(start) - 1, np.int64)
    if not len(runs.start):
        return none
    longest = np.bincount(runs.program, runs.end - runs.start).argmax()
    begin = np.sort(runs.start[runs.program == longest])
    until = np.minimum(start[:-1] + usual, start[1:])
    at, end_at, next_at = (np.searchsorted(begin, each) for each in (start[:-1], until, start[1:]))
    per_step = median(end_at - at)
    return np.rint((next_at - end_at) / per_step).astype(np.int64) if per_step else none


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
