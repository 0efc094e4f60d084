"""The run in a few figures: what a first screen shows."""

from __future__ import annotations

from tpuprof.model.host_run import HostRun
from tpuprof.model.step_times import StepTimes
from tpuprof.parts import DEVICE_PARTS
from tpuprof.report.schema import CompileRow
from tpuprof.report.sections import RunSummary


def run_summary(hosts: list[HostRun], times: StepTimes, compiles: list[CompileRow]) -> RunSummary:
    """Duty cycle of the devices and the mean step of all hosts (`times`), and the time of all compiles (ms)."""
    busy = None
    if times.wall and any(host.devices for host in hosts):
        busy = sum(times.parts.get(name, 0.0) for name in DEVICE_PARTS) / times.wall
    return RunSummary(
        device_busy_share=busy,
        mean_step_ms=times.wall or None,
        compile_ms=sum((each.duration_ms for each in compiles), 0.0),
    )
