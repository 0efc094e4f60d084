"""What of a capture signals are read from, and why it is not there where it is missing.

Nothing seen is an answer only where somebody could look: "no collective ran" needs device ops, "no read blocks the
step" needs events of the training thread.
"""

from __future__ import annotations

from collections.abc import Callable

from tpuprof.model.host_run import HostRun
from tpuprof.model.run import Run
from tpuprof.report.schema import Report

STEPS = "steps"
DEVICES = "devices"
DEVICE_OPS = "device ops"
HOST_EVENTS = "host events"
COMPILES = "compiles"

# Steps from which the device alone shows a recompile: a program that runs for the first time in a later step.
COMPILES_FROM_STEPS = 2


def _steps(report: Report, _run: Run) -> str:
    if report.steps.per_step:
        return ""
    return "the trace has no steps; mark them with tpuprof.step and capture again"


def _devices(_report: Report, run: Run) -> str:
    if any(host.devices for host in run.hosts):
        return ""
    return "the trace has no device activity; capture on the machine that holds the TPU"


def _device_ops(report: Report, run: Run) -> str:
    if any(len(device.op_events.op) for host in run.hosts for device in host.devices):
        return ""
    if report.pod is not None and report.ops:
        return ""  # summaries of hosts have no events
    return "the trace has no device ops; capture with the device tracer on"


def _host_events(_report: Report, run: Run) -> str:
    if any(_has_events(host) for host in run.hosts):
        return ""
    return "the trace has no training thread with known events; capture with the host tracer on"


def _compiles(report: Report, run: Run) -> str:
    """Compiles leave host events; without those a program's first run shows them, from the second step on."""
    if report.compiles or any(_has_events(host) for host in run.hosts):
        return ""
    if run.hosts and all(len(host.steps) < COMPILES_FROM_STEPS or not host.devices for host in run.hosts):
        return "the trace has no host events and fewer than two steps, so a compile would not show in it"
    return ""


def _has_events(host: HostRun) -> bool:
    return host.activity.driver is not None and host.framework != "unknown"


# Name of an input -> why it is missing from a run, empty where it is there.
INPUTS: dict[str, Callable[[Report, Run], str]] = {
    STEPS: _steps,
    DEVICES: _devices,
    DEVICE_OPS: _device_ops,
    HOST_EVENTS: _host_events,
    COMPILES: _compiles,
}
