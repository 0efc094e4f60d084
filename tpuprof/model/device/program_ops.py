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


def programs_in_steps(devices: list[DeviceActivity], steps: Steps) -> set[str]:
    """Programs whose ops ran between the first step's start and the last one's end; empty without devices or steps."""
    if not devices or not len(steps):
        return set()
    device = devices[0]
    events = device.op_events
    inside = (events.start >= steps.start[0]) & (events.start < steps.end[-1])
    ran = np.flatnonzero(np.bincount(events.op[inside], minlength=len(device.ops)))
    return {device.ops.program[row] for row in ran.tolist()}


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
