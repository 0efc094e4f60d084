"""The run in a few figures: what a first screen shows."""

from __future__ import annotations

from tpuprof.model.run import HostRun
from tpuprof.model.verdict import Load
from tpuprof.parts import DEVICE_PARTS
from tpuprof.report.schema import CompileRow
from tpuprof.report.sections import Goodput


def goodput_section(hosts: list[HostRun], load: Load, compiles: list[CompileRow]) -> Goodput:
    """Duty cycle of the devices and the mean step of all hosts (`load`), and the time of all compiles (ms)."""
    busy = None
    if load.wall and any(host.devices for host in hosts):
        busy = sum(load.parts.get(name, 0.0) for name in DEVICE_PARTS) / load.wall
    return Goodput(
        device_busy_share=busy,
        mean_step_ms=load.wall or None,
        compile_ms=sum((each.duration_ms for each in compiles), 0.0),
    )
