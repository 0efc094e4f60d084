"""Steps from the jitted functions that the training thread calls, where nothing marks them: JAX names each call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.host.recorded import ALL, Recorded
from tpuprof.model.host.vocabulary import Activity, Vocabulary
from tpuprof.model.intervals import Bool, Int64, inherit
from tpuprof.model.steps.repetition import EXPLAINS_FROM_SHARE, MIN_REPEATS, Repetition, find_repetition
from tpuprof.model.steps.table import COVERS_FROM_SHARE, LOW, MEDIUM, Steps, StepSource, whole_steps
from tpuprof.model.steps.training_calls import function_of, function_of_program, in_program_name
from tpuprof.model.timeline import Track
from tpuprof.units import count_of, counted, format_share, listed

# Share of calls that repetitions must hold to say anything of the run.
REPEATED_FROM_SHARE = 0.5
# Share of the time in all calls from which a function is one that a step is made of.
HEAVY_FROM_SHARE = 0.1
# Share of the time from which a note says how much of it is the first function's (share). A judgement: half, as that
# function then tells what a step is.
MAIN_FROM_SHARE = 0.5
# Functions that a note names (functions): a sentence stays one that can be read.
FUNCTIONS_NAMED = 3
# Calls inside those of other functions for each call by itself, from which a function belongs to these (ratio). JAX
# writes each call twice, the second inside the first, so this is half as many calls of others.
INSIDE_FROM = 1


def call_steps(
    driver: Track, rows: Int64, recorded: Recorded = ALL, devices: Sequence[DeviceActivity] = ()
) -> Steps | None:
    """Steps from the period of calls, whose outermost `rows` are; None where there are none, or they do not repeat.

    `devices` tell which functions are the heaviest. Where calls of all functions do not repeat, those of the functions
    that take most time are looked at: a step that compiles has many small calls beside.
    """
    for chosen in (rows, rows[_heavy(driver, rows)]):
        found = find_repetition(driver.name_row[chosen]) if len(chosen) >= MIN_REPEATS else None
        steps = _steps(found, driver, chosen, recorded, devices) if found is not None else None
        if steps is not None:
            return steps
    # A plain analysis has no use for it.
    from tpuprof.model.steps.one_function import one_function_steps

    return one_function_steps(driver, rows, recorded) if len(rows) else None


def _heavy(driver: Track, rows: Int64) -> Bool:
    """Which calls are of a function that takes enough of the time in calls."""
    names, length = driver.name_row[rows], (driver.end - driver.start)[rows]
    by_name = np.bincount(names, weights=length, minlength=1) if len(rows) else np.zeros(1)
    heavy: Bool = by_name[names] >= HEAVY_FROM_SHARE * by_name.sum()
    return heavy


def _steps(
    found: Repetition, driver: Track, rows: Int64, recorded: Recorded, devices: Sequence[DeviceActivity]
) -> Steps | None:
    """The repetitions as steps; None where they hold too few calls, or too little of the capture."""
    if found.share < REPEATED_FROM_SHARE:
        return None
    begins = driver.start[rows[found.first]]
    follows = np.append(found.until[:-1] == found.first[1:], np.False_)
    ends = np.where(follows, np.append(begins[1:], 0), driver.end[rows[found.until - 1]])
    ends = np.maximum(ends, begins)
    whole = whole_steps(begins, ends, follows)
    begins, ends = begins[whole], ends[whole]
    # Calls repeat in the first moments of a program too, when it makes its parameters.
    first, last = recorded.extent(driver)
    if recorded.holds(begins, ends, first, last) < COVERS_FROM_SHARE:
        return None
    note = f"no step marker in the trace: a step is {_named(driver, rows, found, devices)}"
    confidence = MEDIUM
    if found.share < EXPLAINS_FROM_SHARE:
        confidence = LOW
        note += f", and repetitions hold only {format_share(found.share)} of the calls"
    return Steps(StepSource.CALLS, confidence, np.arange(len(begins)), begins, ends, note)


def _named(driver: Track, rows: Int64, found: Repetition, devices: Sequence[DeviceActivity]) -> str:
    """One repetition, with its functions, the heaviest first: ops that run one by one are called more often."""
    counts = Counter(function_of(driver, label) for label in found.word)
    if found.width == 1:
        return f"one call of {next(iter(counts))}"
    whose, times = "the device's time", _on_devices(devices)
    if not any(times[in_program_name(name)] for name in counts):
        whose, times = "the time in calls", _in_calls(driver, rows)
    took = {name: times[in_program_name(name)] for name in counts}
    order = sorted(counts, key=lambda name: (-took[name], -counts[name]))
    named = [count_of(counts[name], name) for name in order]
    share = took[order[0]] / max(times.total(), 1)
    # What is called most often needs no reason to stand first.
    if counts[order[0]] < max(counts.values()) and share >= MAIN_FROM_SHARE:
        named[0] += f" with {format_share(share)} of {whose}"
    calls = f"one repetition of {counted(found.width, 'call')} of jitted functions"
    return f"{calls} ({listed(named, FUNCTIONS_NAMED, 'other')})"


def _on_devices(devices: Sequence[DeviceActivity]) -> Counter[str]:
    """How long devices work for programs (ps), by the functions' names in those of the programs."""
    times: Counter[str] = Counter()
    for device in devices:
        events = device.op_events
        took = np.bincount(events.op, weights=events.self_ps, minlength=len(device.ops))
        for program, ps in zip(device.ops.program, took.tolist(), strict=True):
            times[in_program_name(function_of_program(program))] += int(ps)
    return times


def _in_calls(driver: Track, rows: Int64) -> Counter[str]:
    """How long the host is in the calls of each function (ps), by its name in that of a program."""
    times: Counter[str] = Counter()
    took = np.bincount(driver.name_row[rows], weights=(driver.end - driver.start)[rows])
    for label in np.flatnonzero(took).tolist():
        times[in_program_name(function_of(driver, label))] += int(took[label])
    return times


def outermost_calls(driver: Track, vocabulary: Vocabulary) -> Int64:
    """Rows of calls that lie in no other call, in time order: tracing a function calls those inside it and runs none.

    `jax.lax.cond` outside of a jitted function traces its branches before it calls anything.
    """
    wanted = np.flatnonzero(np.isin(driver.name_row, vocabulary.calls.rows(driver.plane.events.names)))
    wanted = wanted[~_traced(driver, vocabulary)[wanted]]
    rows = driver.outermost(wanted)
    rows = rows[np.argsort(driver.start[rows], kind="stable")]
    return rows[~_belong_to_others(driver, wanted, rows)]


def _traced(driver: Track, vocabulary: Vocabulary) -> Bool:
    """Which events are inside one of JAX's that traces."""
    if vocabulary.framework != "jax":
        return np.zeros(len(driver), np.bool_)
    tracing = np.append(vocabulary.codes(driver.plane.events.names) == int(Activity.TRACING), np.False_)
    found: Bool = inherit(np.where(tracing[driver.name_row], 1, -1), driver.parent) > 0
    return found


def _belong_to_others(driver: Track, calls: Int64, outermost: Int64) -> Bool:
    """Which outermost calls are of functions that others call far more often: those around them are not in the trace,
    because the capture ended inside them.
    """
    if not len(outermost):
        return np.empty(0, np.bool_)
    named = driver.name_row
    # A call inside one of its own function, as each is under `jax.vmap`, is that call once more.
    of_outermost = np.full(len(driver), -1, np.int64)
    of_outermost[outermost] = named[outermost]
    around = inherit(of_outermost, driver.parent)[calls]
    inside = np.bincount(named[calls[around != named[calls]]], minlength=int(named[calls].max()) + 1)
    by_itself = np.bincount(named[outermost], minlength=len(inside))
    belongs: Bool = inside[named[outermost]] > INSIDE_FROM * by_itself[named[outermost]]
    return belongs
