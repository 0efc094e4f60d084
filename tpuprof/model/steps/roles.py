"""Functions of one name of which some calls train and others do not: torchax calls all that it jits `call_torch`.

The host's calls have the function's name, and only the device shows which program each of them ran.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.intervals import Int64
from tpuprof.model.steps.programs import runs_on_cpu
from tpuprof.model.steps.training_calls import Calls, Trains, function_of_program, in_program_name

# What is put behind the name of a function for its calls that train nothing.
OTHER = " (without an update)"


def by_role(called: Calls, device: DeviceActivity, trains: Trains) -> Calls:
    """The calls with a name of their own for those that ran a program which does not train, beside ones that do.

    As they are where the device does not show what each call ran: a device other than the CPU names its programs
    itself, and calls are run in their order.
    """
    programs = list(dict.fromkeys(device.ops.program))
    labels: dict[str, list[int]] = {}
    for row, name in enumerate(programs):
        labels.setdefault(in_program_name(function_of_program(name)), []).append(row)
    several = {
        row: labels[in_program_name(name)]
        for row, name in called.functions.items()
        if len(labels.get(in_program_name(name), ())) > 1
    }
    runs = runs_on_cpu(device, called.recorded) if several else None
    if runs is None:
        return called
    training = trains(called.functions.values()).programs
    label, functions = called.label.copy(), dict(called.functions)
    for function, own in several.items():
        other = [each for each in own if programs[each] not in training]
        if 0 < len(other) < len(own):
            rows = _calls_of(called, function, runs, own, other)
            if len(rows):
                functions[max(functions) + 1] = functions[function] + OTHER
                label[rows] = max(functions)
    return replace(called, label=label, functions=functions)


def _calls_of(called: Calls, function: int, runs: Calls, own: list[int], other: list[int]) -> Int64:
    """Calls of a function that ran one of the programs `other`, of its `own` (rows); none where that is unclear."""
    rows = np.flatnonzero(called.label == function)
    ran = np.flatnonzero(np.isin(runs.label, np.array(own)))
    # The first runs may be of calls before the recording, and the last calls may run after it.
    ran = ran[runs.start[ran] >= called.start[rows[0]]]
    ran = ran[max(len(ran) - len(rows), 0) :]
    rows = rows[: len(ran)]
    if not len(rows) or (runs.start[ran] < called.start[rows]).any():
        return rows[:0]
    return rows[np.isin(runs.label[ran], np.array(other))]
