"""The GPUs of a host: how many there are, and which did work in the capture."""

from __future__ import annotations

import numpy as np

from tpuprof.decode.columns import Plane
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.steps.table import Steps, StepSource
from tpuprof.model.timeline import Track
from tpuprof.parallel import in_threads
from tpuprof.records import record
from tpuprof.units import times

# Runs of an op in each step, below which the trace lacks some (runs): the first or last may lie outside of the steps.
RUNS_FROM_SHARE = 0.75


@record(frozen=True)
class Gpus:
    """The GPUs of one host: all that the trace has, and of how many it has work."""

    count: int
    worked: int
    vendor: str

    @property
    def type(self) -> str:
        """What to call the device."""
        from tpuprof.model.device.gpu_streams import type_of

        return type_of(self.vendor)

    @property
    def text(self) -> str:
        """What is not in the trace, in one sentence; empty where a GPU did work."""
        return "" if self.worked else f"the trace has {self.count} x {self.type}, all without work"


def vendor_of(planes: list[tuple[Plane, list[Track]]]) -> str:
    """Who made these GPUs, empty where the trace does not say."""
    return next((name for plane, _ in planes if (name := plane.own_stat("device_vendor"))), "")


def read_gpus(planes: list[tuple[Plane, list[Track]]]) -> list[DeviceActivity]:
    """The GPUs that did work."""
    if not planes:
        return []
    from tpuprof.model.device.gpu_streams import read_gpu

    vendor = vendor_of(planes)
    found = in_threads(lambda each: read_gpu(*each, vendor), planes, beside=1)
    return [each for each in found if each is not None]


def lacking_work(steps: Steps, devices: list[DeviceActivity]) -> list[str]:
    """A warning where steps that call the same functions hold fewer runs of every op than there are steps."""
    gpus = [device for device in devices if device.is_gpu and len(device.op_events.op)]
    if steps.source is not StepSource.CALLS or not gpus:
        return []
    inside = [device.op_events.op[steps.hold(device.op_events.start)] for device in gpus]
    # Ops of a program: copies and other libraries' kernels come as they like.
    own = [
        op[np.array([bool(each) for each in d.ops.program])[op]] for d, op in zip(gpus, inside, strict=True)
    ]
    most = max((int(np.bincount(op).max()) for op in own if len(op)), default=0)
    if not most or most >= RUNS_FROM_SHARE * len(steps):
        return []
    return [
        f"no op of a program ran more than {times(most)} in {len(steps)} steps that call the same functions: the trace "
        "lacks work of the GPU, lost or not yet begun, so the GPU may idle less than is said here"
    ]


def count_gpus(planes: list[tuple[Plane, list[Track]]], devices: list[DeviceActivity]) -> Gpus | None:
    """How many GPUs there are and how many did work, None where there are none."""
    return Gpus(len(planes), len(devices), vendor_of(planes)) if planes else None
