"""Steps of captures in which nothing repeats often enough to make a period: inference, or one captured step.

The executions of the main program are taken as steps, with low confidence. Where no program stands out, the whole
capture is one window: it is not a step, but shares of it say where the time went.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.host.recorded import ALL, Recorded
from tpuprof.model.steps import Steps, StepSource, no_steps
from tpuprof.model.steps.programs import running_longest
from tpuprof.model.steps.table import COVERS_FROM_SHARE
from tpuprof.model.timeline import Track
from tpuprof.units import counted, format_share, times

MAIN_PROGRAM = StepSource.MAIN_PROGRAM
WHOLE_CAPTURE = StepSource.WHOLE_CAPTURE
# Share of the time of all programs from which one is the main program: with less, two programs may alternate.
MAIN_FROM_SHARE = 0.5


def few_steps(
    driver: Track | None,
    devices: list[DeviceActivity],
    recorded: Recorded = ALL,
    *,
    host_alone: bool = False,
) -> Steps:
    """The steps of one host where no source of `model/steps` has any; none where no device did anything.

    With `host_alone` the training thread's events are enough for a window over the whole capture: a TorchTPU capture
    without a device plane shows what the host does all the same.
    """
    whole = _main_program(driver, devices, recorded) or _whole_capture(
        driver, devices, recorded, host_alone=host_alone
    )
    return whole or no_steps()


def is_whole_capture(steps: Steps) -> bool:
    """Whether these are not steps but one window over the whole capture."""
    return steps.source is WHOLE_CAPTURE


class _OfHost(Protocol):
    """What of a host says whether its steps are those of the run."""

    @property
    def steps(self) -> Steps:
        """Its steps."""

    @property
    def devices(self) -> Sequence[object]:
        """Its devices that the trace shows."""


def in_the_means(steps: Steps, devices: Sequence[object], hosts: Sequence[_OfHost]) -> bool:
    """Whether a host's steps are those of the run.

    They are not where they are a window, and other hosts have steps; nor where the trace shows no device of the host,
    and shows others at work in steps.
    """
    stepping = [each for each in hosts if len(each.steps) and not is_whole_capture(each.steps)]
    if is_whole_capture(steps):
        return not stepping
    return bool(devices) or not any(each.devices for each in stepping)


def _main_program(driver: Track | None, devices: list[DeviceActivity], recorded: Recorded) -> Steps | None:
    """One step per execution of the program that takes most of the time of the first device that ran any.

    PJRT_DEVICE=CPU names no program on an execution, so it has no main program here.
    """
    device = next((each for each in running_longest(devices) if each.type != "CPU"), None)
    if device is None:
        return None
    programs = device.programs
    length = np.bincount(programs.program, weights=programs.end - programs.start)
    main = int(np.argmax(length))
    if length[main] < MAIN_FROM_SHARE * length.sum():
        return None
    start = np.sort(programs.start[programs.program == main])
    until = np.append(start[1:], programs.end.max())
    name = programs.names[main].partition("(")[0]
    note = (
        f"{name} ran {times(len(start))}, which makes no period: each execution counts as a step, with the programs "
        "after it"
    )
    if driver is not None and len(driver):
        first, last = recorded.extent(driver)
        share = int((np.maximum(until, start) - start).sum()) / max(last - first, 1)
        if share < COVERS_FROM_SHARE:
            note += f". That is {format_share(share)} of the time that the training thread was recorded for"
    return Steps(MAIN_PROGRAM, "low", np.arange(len(start)), start, np.maximum(until, start), note)


def _whole_capture(
    driver: Track | None, devices: list[DeviceActivity], recorded: Recorded, *, host_alone: bool
) -> Steps | None:
    """The time from the first to the last event of the training thread and the devices, while the profiler recorded."""
    begins = [int(each.busy.start[0]) for each in devices if len(each.busy.start)]
    ends = [int(each.busy.end[-1]) for each in devices if len(each.busy.start)]
    if not begins and not host_alone:
        return None
    if driver is not None and len(driver):
        first, last = recorded.extent(driver)
        begins.append(first)
        ends.append(last)
    if not begins:
        return None
    programs = sum(len(each.programs.start) for each in devices)
    ran = (
        f" ({counted(programs, 'program execution')}, and nothing that repeats takes most of the time)"
        if programs
        else ", and nothing repeats that could be one"
    )
    note = f"no step was found{ran}: shares are of the whole capture"
    begin = min(begins) if recorded.begin is None else max(min(begins), recorded.begin)
    # Work that was handed over goes on while the profiler stops.
    window = np.array([begin], np.int64), np.array([max(*ends, begin)], np.int64)
    return Steps(WHOLE_CAPTURE, "low", np.zeros(1, np.int64), *window, note)
