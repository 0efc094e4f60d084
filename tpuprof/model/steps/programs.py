"""Steps from the programs that a device runs, where the host left nothing to go by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.host.recorded import ALL, Recorded
from tpuprof.model.intervals import Int64
from tpuprof.model.steps.holes import by_ops, by_other, far_apart, lacking, with_ends, without_holes
from tpuprof.model.steps.repetition import (
    EXPLAINS_FROM_SHARE,
    MIN_REPEATS,
    Repetition,
    find_repetition,
)
from tpuprof.model.steps.table import (
    COVERS_FROM_SHARE,
    LOW,
    MEDIUM,
    Steps,
    StepSource,
    begun_whole,
    whole_steps,
)
from tpuprof.model.steps.training_calls import Calls, function_of_program, is_jitted
from tpuprof.model.steps.whole_capture import Times, over_the_capture
from tpuprof.units import counted, format_share

# Share of device time below which a program is left out when the full sequence does not repeat: small eager ops come
# and go between the programs that matter.
LIGHT_BELOW_SHARE = 0.01
# Share of programs or of device time below which repetitions say nothing of the run.
REPEATED_FROM_SHARE = 0.5
# What a program is called of which the trace has no op.
NAMELESS = "unknown"


def program_steps(devices: list[DeviceActivity], recorded: Recorded = ALL) -> Steps | None:
    """Steps from the repetition of programs on the first device that ran enough; None without programs.

    Where two steps are so far apart that the trace may lack one, they are those of the device that has most of them.
    """
    enough = [each for each in running_longest(devices) if len(each.programs.start) >= MIN_REPEATS]
    found = _of_one(enough[0], recorded) if enough else None
    if found is None or enough[0].type == "CPU":
        return found
    if not far_apart(found.start):
        return with_ends(found, enough[0])
    alike = [each for each in enough if _main(each) == _main(enough[0])]
    all_steps = [found, *(_of_one(each, recorded) for each in alike[1:])]
    row = max(range(len(alike)), key=lambda row: len(all_steps[row] or ()))
    steps = all_steps[row] or found
    lack = _lacking(row, steps, alike)
    number = steps.number + np.cumsum(lack) - lack
    return with_ends(without_holes(replace(steps, number=number), steps.start, lack), alike[row])


def _of_one(device: DeviceActivity, recorded: Recorded) -> Steps | None:
    """Steps from the repetition of one device's programs."""
    order = np.argsort(device.programs.start, kind="stable")
    runs = device.programs
    program = runs.program if device.type != "CPU" else _by_last_op(device)
    found = steps_of_runs(program[order], runs.start[order], runs.end[order], recorded)
    return found or _of_functions(device, recorded)


def _of_functions(device: DeviceActivity, recorded: Recorded) -> Steps | None:
    """Steps from the repetition of JAX's functions: one that compiled for several shapes is several programs.

    None where no function is.
    """
    runs = runs_on_cpu(device, recorded) if device.type == "CPU" else runs_of([device])
    names = set(device.ops.program if device.type == "CPU" else device.programs.names)
    functions = [function_of_program(name) for name in names if is_jitted(name)]
    if runs is None or len(set(functions)) == len(functions):
        return None
    number = {name: row for row, name in enumerate(dict.fromkeys(runs.functions.values()))}
    label = np.array([number[runs.functions[each]] for each in runs.label.tolist()], np.int64)
    found = steps_of_runs(label, runs.start, runs.end, recorded)
    several = f"; {counted(len(functions), 'program')} of {counted(len(set(functions)), 'function')} ran"
    return found and replace(found, note=found.note + several)


def _lacking(row: int, steps: Steps, devices: list[DeviceActivity]) -> Int64:
    """How many runs the trace lacks behind each step of a device: its ops ran, or its program did on another device."""
    own = devices[row]
    lack = by_ops(steps.start, own)
    for each in devices:
        if each is not own:
            lack = np.maximum(lack, by_other(steps.start, own.programs, each.programs))
    return lacking(np.full(len(steps), -1, np.int64), steps.start, lack)


def _main(device: DeviceActivity) -> str:
    """The program that takes most of a device's time."""
    runs = device.programs
    return runs.names[int(np.bincount(runs.program, runs.end - runs.start).argmax())]


def running_longest(devices: list[DeviceActivity]) -> list[DeviceActivity]:
    """The devices that ran programs over the whole capture, as far as any did."""
    running = [each for each in devices if len(each.programs.start)]
    return over_the_capture(running, [time_of(each) for each in running])


def time_of(device: DeviceActivity) -> Times:
    """From the first program of a device to the end of the last, and how many it ran."""
    runs = device.programs
    return Times(int(runs.end.max() - runs.start.min()), len(runs.start))


def runs_of(devices: list[DeviceActivity]) -> Calls | None:
    """What the first device ran that names its programs; None where none does."""
    device = next((each for each in running_longest(devices) if each.type != "CPU"), None)
    if device is None:
        return None
    runs = device.programs
    order = np.argsort(runs.start, kind="stable")
    functions = {row: function_of_program(name) for row, name in enumerate(runs.names)}
    start, end = runs.start[order], runs.end[order]
    bounds = int(start[0]), int(end.max())
    return Calls(runs.program[order], start, end, functions, *bounds, source=StepSource.PROGRAMS)


def runs_on_cpu(device: DeviceActivity, recorded: Recorded) -> Calls | None:
    """What a CPU device ran, in the order in which it ended; None where several devices run side by side.

    The client names no program and loop bodies look like programs: what lies in another one is left out. A program
    begins with its first op: its own event begins when all its ops are launched.
    """
    if device.type != "CPU" or device.count != 1 or not len(device.programs.start):
        return None
    runs = device.programs
    until = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, runs.end))[:-1]
    outer = runs.end > until
    label, end = _by_last_op(device)[outer], runs.end[outer]
    ops = np.sort(device.op_events.start)
    before = np.append(int(runs.start[0]), end[:-1])
    first = np.searchsorted(ops, before, "left")
    start = np.minimum(runs.start[outer], np.append(ops, np.iinfo(np.int64).max)[first])
    functions = {row: function_of_program(name) for row, name in enumerate(dict.fromkeys(device.ops.program))}
    label = np.where(label >= 0, label, len(functions))
    functions[len(functions)] = NAMELESS
    functions = {row: name for row, name in functions.items() if (label == row).any()}
    bounds = recorded.around(int(start[0]), int(end[-1]))
    return Calls(label, start, end, functions, *bounds, source=StepSource.PROGRAMS, recorded=recorded)


def _by_last_op(device: DeviceActivity) -> Int64:
    """A number for the program of each execution, by the op that began last in it: the CPU client names none."""
    events = device.op_events
    if not len(events.start):
        return device.programs.program
    rows = {name: row for row, name in enumerate(dict.fromkeys(device.ops.program))}
    number = np.array([rows[name] for name in device.ops.program], np.int64)
    order = np.argsort(events.start, kind="stable")
    at = np.searchsorted(events.start[order], device.programs.end, "right") - 1
    return np.where(at >= 0, number[events.op[order[np.maximum(at, 0)]]], -1)


def steps_of_runs(
    program: Int64,
    start: Int64,
    end: Int64,
    recorded: Recorded,
    source: StepSource = StepSource.PROGRAMS,
) -> Steps | None:
    """Steps from the repetition of programs that a device ran, in time order."""
    duration = end - start
    _, kind = np.unique(program, return_inverse=True)
    by_program = np.bincount(kind.reshape(-1), weights=duration)
    heavy = np.flatnonzero(by_program[kind.reshape(-1)] >= LIGHT_BELOW_SHARE * by_program.sum())
    best = None
    for rows in (np.arange(len(program)), heavy):
        found = find_repetition(program[rows])
        if found is None:
            continue
        explained = max(found.share if len(rows) == len(program) else 0.0, _time_share(found, rows, duration))
        if best is None or explained > best[0]:
            best = explained, found, rows
        if explained >= EXPLAINS_FROM_SHARE:
            break
    if best is not None and best[0] >= REPEATED_FROM_SHARE:
        steps = _repeated(best[1], best[2], start, end, recorded)
        return steps and _noted(replace(steps, source=source), best[1].width, best[0])
    return None


def _time_share(found: Repetition, rows: Int64, duration: Int64) -> float:
    """Share of device time in repetitions, of the time from the first to the last of them."""
    first, last = int(rows[found.first[0]]), int(rows[found.until[-1] - 1])
    total = float(duration[first : last + 1].sum())
    inside = found.held[found.first[0] : found.until[-1]]
    return float(duration[rows[found.first[0] : found.until[-1]][inside]].sum()) / total if total else 0.0


def _repeated(found: Repetition, rows: Int64, start: Int64, end: Int64, recorded: Recorded) -> Steps | None:
    """The repetitions as steps; None where most of the time lies between them, or before and after: then they are
    parts of one, or training is elsewhere.
    """
    begins = start[rows[found.first]]
    follows = np.append(found.until[:-1] == found.first[1:], np.False_)
    ends = np.where(follows, np.append(begins[1:], 0), end[rows[found.until - 1]])
    ends = np.maximum(ends, begins)
    whole = whole_steps(begins, ends, follows) & begun_whole(begins, ends, follows)
    begins, ends = begins[whole], ends[whole]
    first, last = recorded.around(int(begins[0]), int(ends[-1]))
    if recorded.holds(begins, ends, first, last) < COVERS_FROM_SHARE:
        return None
    return Steps(StepSource.PROGRAMS, MEDIUM, np.arange(len(begins)), begins, ends)


def _noted(steps: Steps, width: int, explained: float) -> Steps:
    """The steps with what one is, and how sure that is."""
    note = (
        f"no step marker in the trace: a step is one repetition of {counted(width, 'program')} on the device"
    )
    if explained >= EXPLAINS_FROM_SHARE:
        return replace(steps, note=note)
    note += f", and repetitions hold only {format_share(explained)} of the device's programs"
    return replace(steps, note=note, confidence=LOW)
