"""Steps from the ops that a device runs, where the trace has none of its programs: `XLA Modules` is not in it.

Each op outside of a loop runs once in an execution of its program, so that one which comes again begins the next.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.activity import DeviceActivity, OpEvents
from tpuprof.model.host.recorded import ALL, Recorded
from tpuprof.model.intervals import Int64
from tpuprof.model.steps.programs import steps_of_runs
from tpuprof.model.steps.repetition import MIN_REPEATS
from tpuprof.model.steps.table import Steps, StepSource
from tpuprof.model.steps.whole_capture import Times, over_the_capture


def op_steps(devices: list[DeviceActivity], recorded: Recorded = ALL) -> Steps | None:
    """Steps from the repetition of what the first TPU ran over the whole capture; None where none says."""
    if any(len(each.programs.start) for each in devices):
        return None
    working = [
        each for each in devices if each.type != "CPU" and not each.is_gpu and len(each.op_events.start)
    ]
    chosen = over_the_capture(working, [_time_of(each) for each in working])
    if not chosen:
        return None
    events = chosen[0].op_events
    rows = _outermost(events)
    start, end = events.start[rows], events.end[rows]
    rows = rows[_first(events.op[rows], start, end) :]
    program = chosen[0].ops.program_id
    label, first = _executions(events.op[rows], program[events.op[rows]] if len(program) else None)
    if len(first) < MIN_REPEATS:
        return None
    ends = np.maximum.reduceat(events.end[rows], first)
    return steps_of_runs(label, events.start[rows[first]], ends, recorded, StepSource.OPS)


def _outermost(events: OpEvents) -> Int64:
    """Ops that are not inside of another one, in time order. Where rounding lets two overlap, neither is."""
    order = np.lexsort((-events.end, events.start))
    reach = np.maximum.accumulate(events.end[order])
    found: Int64 = order[np.append(True, events.end[order][1:] > reach[:-1])]
    return found


def _first(label: Int64, start: Int64, end: Int64) -> int:
    """The first row of the op before which the device idles most: a step begins with it, wherever the capture did."""
    idle = np.maximum(start - np.maximum.accumulate(np.append(start[:1], end[:-1])), 0)
    return int(np.argmax(label == int(np.argmax(np.bincount(label, idle)))))


def _executions(label: Int64, program: Int64 | None) -> tuple[Int64, Int64]:
    """A number for the program of each execution, and the row of its first op; `program` is that of each op, if known.

    Where it is unknown, that is the least and the greatest label in the execution.
    """
    begins, seen, last = [], set[int](), -1
    programs = label * 0 if program is None else program
    for row, (own, of) in enumerate(zip(label.tolist(), programs.tolist(), strict=True)):
        if own in seen or of != last:
            begins.append(row)
            seen.clear()
        seen.add(own)
        last = of
    first = np.array(begins, np.int64)
    if program is not None:
        return program[first], first
    most = int(label.max()) + 1
    return np.minimum.reduceat(label, first) * most + np.maximum.reduceat(label, first), first


def _time_of(device: DeviceActivity) -> Times:
    """From the first op of a device to the end of the last, and how many it ran."""
    events = device.op_events
    return Times(int(events.end.max() - events.start.min()), len(events.start))
