"""What a device-bound verdict adds where the device is this machine's CPU, and the host's own code takes its time."""

from __future__ import annotations

from tpuprof import parts as part
from tpuprof.model.busy_machine import cpu_use
from tpuprof.model.run import Run
from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.report.host_lines import Where, lines_of
from tpuprof.report.sections import HostStackRow
from tpuprof.units import format_ms, format_share

# Share of the CPUs' time from which host and device take it from each other (share): what is left is less than the
# step would change. A judgement.
ALL_CPUS_FROM_SHARE = 0.85
# Time of the host's own code at one line, beside the step, from which it is said (share): NumPy for 0.4 of each step on
# one of two CPUs made ops of the device take twice as long.
OWN_CODE_FROM_SHARE = 0.25


def said_of_shared_cpus(run: Run, bound: Bound, times: StepTimes, stacks: list[HostStackRow]) -> str:
    """The sentence, empty where the device is no CPU, or the CPUs were not all used, or the host hardly worked."""
    used = cpu_use(run.info)
    on_cpu = any(device.type == "CPU" for host in run.hosts for device in host.devices)
    if bound.word != "device" or not on_cpu or used is None or used < ALL_CPUS_FROM_SHARE:
        return ""
    lines = [
        Where(source, call, exposed + hidden)
        for source, call, exposed, hidden in lines_of(stacks, part.HOST_PREFIX + "python")
        if source
    ]
    longest = max(lines, key=lambda each: each.ms, default=None)
    if longest is None or longest.ms < OWN_CODE_FROM_SHARE * times.wall:
        return ""
    return (
        f" But the device is this machine's CPU, and code at {longest.text} runs beside it for "
        f"{format_ms(longest.ms)} of each step. The program used {format_share(used)} of the CPUs: without that "
        "code the device may be faster."
    )
