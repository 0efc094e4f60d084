"""Steps of a loop that calls one jitted function per step and stops for long runs of another: an evaluation, say.

Such calls do not repeat within a short recording. The function with most of the time is taken for the step.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.host.recorded import Recorded
from tpuprof.model.intervals import Bool, Int64
from tpuprof.model.steps.phase import Phase
from tpuprof.model.steps.repetition import MIN_REPEATS
from tpuprof.model.steps.table import COVERS_FROM_SHARE, LOW, Steps, StepSource, whole_steps
from tpuprof.model.steps.training_calls import function_of
from tpuprof.model.timeline import Track
from tpuprof.report.between import OTHER_CALLS
from tpuprof.units import counted

# Calls of other functions in a row from which they do not belong to a step (calls): a loop has one or two beside its
# step for a random key or a mean, and an evaluation has more batches. A judgement.
PHASE_FROM_CALLS = 4


def one_function_steps(driver: Track, rows: Int64, recorded: Recorded) -> Steps | None:
    """A step is one call of the function that takes most of the time until the next call; None where that says little.

    `rows` are the outermost calls in time order.
    """
    if len(rows) < MIN_REPEATS:
        return None
    names, start = driver.name_row[rows], driver.start[rows]
    _, last = recorded.extent(driver)
    until = np.append(start[1:], max(last, int(driver.end[rows[-1]])))
    label = int(np.argmax(np.bincount(names, weights=until - start)))
    own = np.flatnonzero(names == label)
    follow = np.append(own[1:], len(rows))
    # Without a long run of other calls anywhere, the calls have no such shape.
    interrupted = follow - own - 1 >= PHASE_FROM_CALLS
    if len(own) < MIN_REPEATS or not interrupted.any():
        return None
    begins = start[own]
    ends = np.where(interrupted, until[own], np.append(start, until[-1])[follow])
    whole = whole_steps(begins, ends, (follow < len(rows)) & ~interrupted)
    phases = _phases(driver, rows, own, follow, interrupted & (follow < len(rows)), whole)
    if recorded.holds(begins[whole], ends[whole], int(start[0]), int(until[-1])) < COVERS_FROM_SHARE:
        return None
    function = function_of(driver, label)
    note = (
        f"no step marker in the trace: a step is one call of {function}, which takes most of the time; "
        "runs of other calls are left out"
    )
    numbers = np.arange(int(whole.sum()))
    return Steps(StepSource.CALLS, LOW, numbers, begins[whole], ends[whole], note, phases=phases)


def _phases(
    driver: Track, rows: Int64, own: Int64, follow: Int64, chosen: Bool, whole: Bool
) -> tuple[Phase, ...]:
    """The runs of other calls between two steps."""
    found = []
    number = np.cumsum(whole)
    for at in np.flatnonzero(chosen).tolist():
        first, after = int(own[at]) + 1, int(follow[at])
        names = driver.name_row[rows[first:after]]
        most = function_of(driver, int(np.bincount(names).argmax()))
        evidence = f"{counted(after - first, 'call')} in a row of other functions, most of {most}"
        begin, end = int(driver.start[rows[first]]), int(driver.start[rows[after]])
        found.append(Phase(OTHER_CALLS, begin, end, after - first, evidence, int(number[at])))
    return tuple(found)
