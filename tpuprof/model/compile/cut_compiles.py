"""Steps that begin when their compiles end, where they hold what steps before them handed over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof.model.compile.compiles import Compile
from tpuprof.model.steps import Steps
from tpuprof.model.steps.phase import ONE_OFF_COMPILE


def without_their_compiles(steps: Steps, left: Steps, compiles: list[Compile]) -> tuple[Steps, list[Compile]]:
    """All the steps; those that `left` leaves out begin when their last compile ends, and the phase ends there.

    For a step that holds what the steps before handed over, beside its compiles.
    """
    start = steps.start.copy()
    once = np.flatnonzero(~np.isin(steps.start, left.start)).tolist()
    for row in once:
        ends = [each.start_ps + each.duration_ps for each in compiles if each.step == row]
        start[row] = min(max(ends), int(steps.end[row]))
    begins = dict(zip(steps.start.tolist(), start.tolist(), strict=True))
    phases = [
        replace(each, end=begins[each.start]) if each.name == ONE_OFF_COMPILE else each
        for each in left.phases
    ]
    moved = [replace(each, step=None) if each.step in once else each for each in compiles]
    return replace(steps, start=start, phases=tuple(phases)), moved
