"""What a device-bound verdict adds where the device is this machine's CPU, and the host's own code takes its time."""

from __future__ import annotations

from dataclasses import replace

from tpuprof import parts as part
from tpuprof.model.busy_machine import short_of_cpus
from tpuprof.model.host.sample_events import BLOCKING
from tpuprof.model.host.stacks import Stack, family
from tpuprof.model.run import Run
from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.report.host_lines import Where, lines_of
from tpuprof.report.labels import MAY_BE_FASTER
from tpuprof.report.sections import HostStackRow
from tpuprof.units import format_ms

# Time of the host's own code beside the step from which it is said (share): on one of two CPUs, NumPy for 0.4 of each
# step made ops of the device take twice as long, and SQL for 0.24 of it made them take 1.4 times as long.
OWN_CODE_FROM_SHARE = 0.2
# Share of that time at its first line from which no other lines are mentioned. A judgement.
ONE_LINE_FROM_SHARE = 0.9
_PYTHON = part.HOST_PREFIX + "python"


def said_of_shared_cpus(run: Run, bound: Bound, times: StepTimes, stacks: list[HostStackRow]) -> str:
    """The sentence, empty where the device is no CPU, or there were enough CPUs, or the host hardly worked."""
    short = short_of_cpus(run.info)
    # Several devices on one machine take CPUs from each other, whatever the host does.
    on_cpu = any(device.type == "CPU" and device.count == 1 for host in run.hosts for device in host.devices)
    if bound.word != "device" or not on_cpu or not short:
        return ""
    lines = [
        Where(source, call, exposed + hidden)
        for source, call, exposed, hidden in lines_of(_that_work(stacks), _PYTHON)
        if source
    ]
    longest = max(lines, key=lambda each: each.ms, default=None)
    own = sum(each.ms for each in lines)
    if longest is None or own < OWN_CODE_FROM_SHARE * times.wall:
        return ""
    others = "" if longest.ms >= ONE_LINE_FROM_SHARE * own else " and other lines"
    return (
        f" But the device is this machine's CPU, and code at {longest.text}{others} runs beside it for "
        f"{format_ms(own)} of each step. {short}: {MAY_BE_FASTER}."
    )


def _that_work(stacks: list[HostStackRow]) -> list[HostStackRow]:
    """The stacks of the host's own code, also where the training thread makes its batches and waits for nobody."""
    batches = [row for row in stacks if row.part == part.INPUT_WAIT and family(_stack(row)) not in BLOCKING]
    return [row for row in stacks if row.part == _PYTHON] + [replace(row, part=_PYTHON) for row in batches]


def _stack(row: HostStackRow) -> Stack:
    return Stack(tuple(row.frames), row.call, row.source, row.user_call)
