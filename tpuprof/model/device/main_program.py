"""The program that a host's devices mostly run."""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.activity import DeviceActivity


def main_program(devices: list[DeviceActivity]) -> str:
    """The program that most of the devices' time goes to, by the name before its fingerprint; empty without one.

    By its ops: PJRT_DEVICE=CPU gives executions of all programs one name.
    """
    times: dict[str, int] = {}
    for device in devices:
        names = device.ops.program
        spent = np.zeros(len(names), np.int64)
        np.add.at(spent, device.op_events.op, device.op_events.self_ps)
        for name, each in zip(names, spent.tolist(), strict=True):
            short = name.partition("(")[0]
            times[short] = times.get(short, 0) + each
    return max(sorted(times), key=lambda name: times[name], default="")
