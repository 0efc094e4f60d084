"""Tries the sources of step boundaries in the order of trust."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof.model.device.activity import DeviceActivity, are_several
from tpuprof.model.host.recorded import ALL, Recorded
from tpuprof.model.host.vocabulary import Vocabulary
from tpuprof.model.intervals import Int64, ascending_distinct, contains, covered
from tpuprof.model.steps.calls import call_steps, outermost_calls
from tpuprof.model.steps.cuts import Cuts, read_cuts, reads_alone
from tpuprof.model.steps.device_line import device_line_steps
from tpuprof.model.steps.eager_reads import eager_read_steps
from tpuprof.model.steps.from_cuts import cut_steps, read_steps
from tpuprof.model.steps.markers import (
    FROM_COMPILED,
    FROM_CUT,
    FROM_OPTIMIZER,
    Markers,
    compiled_steps,
    marked_steps,
    profiler_steps,
    read_markers,
)
from tpuprof.model.steps.optimizer import OptimizerCalls, boundaries, enough, read_optimizer_calls
from tpuprof.model.steps.phases import leading_phases
from tpuprof.model.steps.programs import program_steps, runs_of, runs_on_cpu
from tpuprof.model.steps.table import COVERS_FROM_SHARE, HIGH, LOW, MEDIUM, Steps, StepSource, no_steps
from tpuprof.model.steps.training_calls import (
    Trains,
    calls_of,
    hold_training,
    no_functions,
    training_call_steps,
)
from tpuprof.model.timeline import Track

# Share of runs of other calls at whose begin a device still works, from which the host has run ahead of it (share).
RAN_AHEAD_FROM_SHARE = 0.5

# Steps that a device ran, over those that the host called, below which the host's own steps say nothing of the time
# that one takes (ratio). A judgement: the first and last ones may be cut, and half as many are no steps of the host's.
RAN_OF_CALLED_BELOW = 0.75
# How much the number of a device's steps may differ from that of the host's for them to be the same steps (share): a
# step or two at the ends of a capture have their work outside of it.
AS_MANY_WITHIN_SHARE = 0.2
_AHEAD = (
    "most of the device's work lies outside of the host's own steps: the host runs ahead of the device, or their "
    "clocks differ, so steps are the device's"
)
_FEWER = "the device ran {ran} steps while the host called {called}, so steps are the device's"
_NAMELESS = (
    "each optimizer call ends a step: the trace does not name the optimizers, so with several a step is one call; "
    "mark steps with tpuprof.step"
)


def find_steps(
    driver: Track | None,
    devices: list[DeviceActivity],
    vocabulary: Vocabulary,
    recorded: Recorded = ALL,
    trains: Trains = no_functions,
) -> Steps:
    """The steps of one host, by the first source that has any; `recorded` is when the profiler recorded it.

    `trains` tells which of the functions that are called train, by their programs.
    """
    if driver is None:
        return _of_device(devices, trains)
    found = _of_driver(driver, devices, vocabulary, recorded, trains)
    return _unless_ahead(found, devices, trains)


def _of_driver(
    driver: Track, devices: list[DeviceActivity], vocabulary: Vocabulary, recorded: Recorded, trains: Trains
) -> Steps:
    markers = read_markers(driver)
    if markers is not None and not markers.own:
        return marked_steps(markers)
    found = profiler_steps(driver) if markers is None else None
    if found is not None:
        return found
    cuts = read_cuts(driver, vocabulary, devices)
    found = _of_host(driver, markers, cuts, devices)
    if found is None and cuts is None:
        found = read_steps(reads_alone(driver, vocabulary, devices))
    found = found or _of_calls(driver, vocabulary, devices, recorded, trains)
    # What a device ran says more, where it is seen.
    return found if len(found) else eager_read_steps(driver, vocabulary) or found


def _unless_ahead(steps: Steps, devices: list[DeviceActivity], trains: Trains) -> Steps:
    """The steps, or the device's own where it does most of its work outside of these and has as many.

    The host handed all of them over at once, or the clocks of host and device differ: what the host's steps take then
    says nothing. Another number of steps is other work, an evaluation, say.
    """
    if not len(steps) or not steps.source.host_paced or not _names_programs(devices):
        return steps
    if not _work_later(steps, devices):
        return steps
    own = _of_device(devices, trains)
    if own.confidence == LOW or abs(len(own) - len(steps)) > AS_MANY_WITHIN_SHARE * len(steps):
        return steps
    number = steps.number if len(own) == len(steps) else own.number
    return replace(own, number=number, note=f"{_AHEAD}; {own.note}" if own.note else _AHEAD)


def _names_programs(devices: list[DeviceActivity]) -> bool:
    """Whether a device tells its programs. The CPU client names none, and runs small ones on the calling thread."""
    return bool(devices) and devices[0].type != "CPU"


def _of_calls(
    driver: Track, vocabulary: Vocabulary, devices: list[DeviceActivity], recorded: Recorded, trains: Trains
) -> Steps:
    """Steps from calls of jitted functions, or from the device's programs where those say more."""
    of_device = _of_device(devices, trains, recorded)
    if _names_programs(devices) and len(of_device) and of_device.confidence != LOW:
        return of_device
    rows = outermost_calls(driver, vocabulary)
    calls = call_steps(driver, rows, recorded, devices)
    if len(rows):
        called = calls_of(driver, rows, recorded)
        if len(devices) == 1:
            from tpuprof.model.steps.roles import by_role

            called = by_role(called, devices[0], trains)
        finer = training_call_steps(called, trains, _trusted(calls))
        if finer is not None and not (_work_later(finer, devices) and _ran_ahead(finer, devices)):
            return finer
        # The host called them all at once: when each of them ran is what the device shows. A call that waits for all of
        # them takes most of the time then, and is no step.
        unsure = finer is not None or calls is None or not hold_training(calls, called, trains)
        runs = runs_on_cpu(devices[0], recorded) if unsure and len(devices) == 1 else None
        paced = training_call_steps(runs, trains, None) if runs is not None else None
        if paced is not None:
            return paced
    if calls is None or (calls.confidence == LOW and of_device.confidence != LOW and len(of_device)):
        return of_device
    # The host called the others ahead: what a step takes is what the device takes. Of several devices, nothing tells
    # which programs of theirs are one step.
    alone = not are_several(devices)
    if alone and of_device.confidence != LOW and 0 < len(of_device) < RAN_OF_CALLED_BELOW * len(calls):
        few = _FEWER.format(ran=len(of_device), called=len(calls))
        return replace(of_device, note=f"{few}; {of_device.note}")
    return of_device if len(of_device) and _work_later(calls, devices) else calls


def _work_later(calls: Steps, devices: list[DeviceActivity]) -> bool:
    """Whether the devices do most of their work outside of these steps: the host called ahead, and then waited."""
    busy = sum(device.busy.total for device in devices)
    inside = sum(int(covered(device.busy, calls.start, calls.end).sum()) for device in devices)
    return inside < COVERS_FROM_SHARE * busy


def _ran_ahead(steps: Steps, devices: list[DeviceActivity]) -> bool:
    """Whether devices still work where steps end for something else: on those steps, so that they do not show it."""
    begins = np.array([each.start for each in steps.phases], np.int64)
    at_work = sum(int(contains(device.busy, begins).sum()) for device in devices)
    return at_work > RAN_AHEAD_FROM_SHARE * len(begins) * len(devices) or not len(begins)


def _of_host(
    driver: Track, markers: Markers | None, cuts: Cuts | None, devices: list[DeviceActivity]
) -> Steps | None:
    """Steps from optimizer calls, the device's `Steps` line, or graph cuts."""
    calls = read_optimizer_calls(driver)
    if markers is not None and markers.origin == FROM_OPTIMIZER and calls is not None:
        return _optimizer_steps(calls, markers, cuts)
    if markers is not None and markers.origin == FROM_COMPILED:
        return compiled_steps(markers)
    if markers is not None and markers.origin == FROM_CUT:
        return cut_steps(cuts, markers)
    line = device_line_steps(devices)
    if line is not None:
        return line
    if enough(calls) and calls is not None:
        return _optimizer_steps(calls, None, cuts)
    return cut_steps(cuts, None)


def _of_device(devices: list[DeviceActivity], trains: Trains, recorded: Recorded = ALL) -> Steps:
    line = device_line_steps(devices)
    if line is not None:
        return line
    found = program_steps(devices, recorded)
    runs = runs_of(devices)
    finer = training_call_steps(runs, trains, _trusted(found)) if runs is not None else None
    of_programs = finer or found
    if of_programs:
        return of_programs
    from tpuprof.model.steps.from_ops import op_steps

    return op_steps(devices, recorded) or no_steps()


def _trusted(steps: Steps | None) -> Steps | None:
    return steps if steps is not None and steps.confidence != LOW else None


def _optimizer_steps(calls: OptimizerCalls, markers: Markers | None, cuts: Cuts | None) -> Steps:
    """Steps between rounds of optimizer calls; numbered by the capture's markers where it set some."""
    if markers is None:
        edges, width = boundaries(calls, cuts.end if cuts is not None else np.empty(0, np.int64))
        return _with_phases(edges, np.arange(len(edges) - 1), width, cuts, calls)
    bounds = np.append(markers.start, markers.end[-1])
    edges, width = boundaries(calls, bounds)
    # The first marker begins a step whose calls all come after it.
    edges = ascending_distinct(np.concatenate((bounds[:1], edges[edges <= bounds[-1]])))
    at = np.maximum(np.searchsorted(markers.start, edges[:-1], "right") - 1, 0)
    return _with_phases(edges, markers.number[at], width, cuts, calls)


def _with_phases(edges: Int64, number: Int64, width: int, cuts: Cuts | None, calls: OptimizerCalls) -> Steps:
    start, end = edges[:-1], edges[1:]
    note = f"a step is one round of {width} optimizer calls" if width > 1 else ""
    note = _NAMELESS if calls.nameless else note
    phases = leading_phases(cuts, start, end, number) if cuts is not None else []
    begin = start.copy()
    for phase in phases:
        begin[start == phase.start] = phase.end
    confidence = MEDIUM if calls.nameless else HIGH
    steps = Steps(StepSource.OPTIMIZER, confidence, number.astype(np.int64), begin, end, note)
    return replace(steps, phases=tuple(phases))
