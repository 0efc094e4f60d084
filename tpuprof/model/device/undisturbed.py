"""How long the ops of a CPU device would take if nothing else ran: what their shortest runs took.

The threads of such a device share the CPUs with the program's own and with other processes. An op has the same work
in each run, so that a run which takes several times as long was waiting for a CPU, or for memory.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.op_kind import OpKind

# Runs of an op from which the shortest ones tell what it takes (count), and which of them does (quantile).
RUNS_FROM, SHORT_RUN = 10, 0.1


def undisturbed_share(device: DeviceActivity) -> float:
    """Share of the time of a device's computing ops that is left if each run of an op took as long as a short one.

    1 where the device is no CPU, or its ops ran too rarely to tell.
    """
    events = device.op_events
    if device.type != "CPU" or not len(events.op):
        return 1.0
    computes = device.ops.kind[events.op] == OpKind.COMPUTE
    op, took = events.op[computes], events.self_ps[computes].astype(np.float64)
    order = np.lexsort((took, op))
    op, took = op[order], took[order]
    first = np.flatnonzero(np.append(True, op[1:] != op[:-1])) if len(op) else np.empty(0, np.int64)
    count = np.diff(np.append(first, len(op)))
    whole = np.add.reduceat(took, first) if len(first) else np.empty(0)
    short = took[np.minimum(first + (count * SHORT_RUN).astype(np.int64), first + count - 1)] * count
    left = np.where(count >= RUNS_FROM, np.minimum(short, whole), whole)
    return float(left.sum() / whole.sum()) if whole.sum() > 0 else 1.0
