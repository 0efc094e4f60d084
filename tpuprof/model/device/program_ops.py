"""How many ops the programs of a step have: what the host traced for it, about."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tpuprof.decode.hlo_proto import parse_module_proto
from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.errors import TpuprofError
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.steps import Steps

# Instructions that no op of the framework stands for.
_NO_OPS = frozenset(
    (b"parameter", b"constant", b"tuple", b"get-tuple-element", b"fusion", b"call", b"bitcast", b"copy")
)


def program_ops(devices: list[DeviceActivity], steps: Steps, protos: dict[str, bytes]) -> int | None:
    """Instructions of the programs whose ops ran inside steps, those inside fusions too; None where none is embedded.

    Read only where it is asked for: a large program takes a while.
    """
    ran = programs_in_steps(devices, steps)
    counts = [_instructions(protos[name]) for name in ran if name in protos]
    return sum(counts) if counts else None


def programs_in_steps(devices: list[DeviceActivity], steps: Steps) -> dict[str, float]:
    """Programs whose ops ran between the first step's start and the last one's end, with the share of the ops' time.

    Of the first device. Empty without devices or steps.
    """
    if not devices or not len(steps):
        return {}
    device = devices[0]
    events = device.op_events
    inside = (events.start >= steps.start[0]) & (events.start < steps.end[-1])
    op = events.op[inside]
    ran = np.flatnonzero(np.bincount(op, minlength=len(device.ops))).tolist()
    spent = np.zeros(len(device.ops), np.int64)
    np.add.at(spent, op, events.self_ps[inside])
    total = max(int(spent.sum()), 1)
    shares: dict[str, float] = {}
    for row in ran:
        name = device.ops.program[row]
        shares[name] = shares.get(name, 0.0) + int(spent[row]) / total
    return shares


@lru_cache(maxsize=PROGRAMS_KEPT)
def _instructions(data: bytes) -> int:
    try:
        module = parse_module_proto(data)
    except TpuprofError:
        return 0
    return sum(
        instruction.opcode not in _NO_OPS
        for computation in module.computations
        for instruction in computation.instructions
    )
