"""The devices of a host: what its planes or threads show, and the queue of programs of a CPU device."""

from __future__ import annotations

from tpuprof.model.compile.hlo_metadata import read_hlo_metadata
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.cpu import Queue, queue_of, read_cpu
from tpuprof.model.device.tpu import Known, read_tpu
from tpuprof.model.steps import Steps
from tpuprof.model.steps.phase import RUN_AHEAD, RUN_UP
from tpuprof.model.timeline import Host
from tpuprof.parallel import in_threads


def read_devices(host: Host, virtual_devices: int | None) -> list[DeviceActivity]:
    """Its TPUs, else its GPUs, else the CPU that is its device; none where the trace shows none."""
    planes = [
        (host.device_planes[index], tracks, host.sparse.get(index, []))
        for index, tracks in sorted(host.devices.items())
        if tracks
    ]
    if planes:
        # Beside the thread that reads the host.
        known = Known()
        return in_threads(lambda each: read_tpu(*each, known), planes, beside=1)
    if host.gpus:
        from tpuprof.model.device.gpu import read_gpus

        return read_gpus(host.gpus)  # what host threads say of ops is then the GPUs'
    programs = read_hlo_metadata(host.trace)
    cpu = read_cpu(host.threads, virtual_devices or 1, programs.describe, programs.work_of)
    return [cpu] if cpu else []


def queue_in_steps(
    host: Host, devices: list[DeviceActivity], virtual_devices: int | None, steps: Steps
) -> Queue:
    """Programs handed to a CPU device and those that ran, where it is that device's queue that they wait in."""
    if (
        host.gpus
        or any(each.type != "CPU" for each in devices)
        or any(each.name in (RUN_UP, RUN_AHEAD) for each in steps.phases)
    ):
        return Queue()  # a queue that is full grows no more
    return queue_of(host.threads, virtual_devices or 1)
