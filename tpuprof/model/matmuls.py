"""Matrix multiplications among a device's ops: the types and shapes of what they multiply, and their padding."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tpuprof.model.device import DeviceActivity
from tpuprof.model.op_kind import opcode
from tpuprof.units import ps_to_ms

_ARRAY = re.compile(r"\b(pred|[subf]\w*\d+\w*)\[([\d,]*)\]")
_OPCODES = ("dot", "convolution")
# TPU profilers give fusions around a multiplication this category.
_CATEGORY = "convolution"


@dataclass(frozen=True)
class Matmul:
    """One multiplication over all executions on a device: operand types and shapes, result last; ms of self time."""

    name: str
    arrays: tuple[tuple[str, tuple[int, ...]], ...]
    self_ms: float
    source: str

    @property
    def float32(self) -> bool:
        """Whether all matrices it reads are float32."""
        read = [kind for kind, dims in self.arrays[1:] if len(dims) >= 2]
        return bool(read) and all(kind == "f32" for kind in read)

    @property
    def text(self) -> str:
        """Result and operands, readable."""
        shown = [f"{kind}[{','.join(map(str, dims))}]" for kind, dims in self.arrays]
        return f"{shown[0]} from {', '.join(shown[1:])}" if len(shown) > 1 else "".join(shown)

    def padding(self, sublanes: int, lanes: int) -> float:
        """The largest share of padding among its matrices, once their last two dimensions fill whole tiles."""
        return max(
            (_padding(dims, sublanes, lanes) for _, dims in self.arrays if len(dims) >= 2), default=0.0
        )


def matmuls(device: DeviceActivity) -> list[Matmul]:
    """The device's multiplications, most self time first; ops whose HLO line is not told are left out."""
    ops = device.ops
    own = np.zeros(len(ops), np.int64)
    np.add.at(own, device.op_events.op, device.op_events.self_ps)
    found = []
    for row in np.flatnonzero(own).tolist():
        line = ops.long_name[row]
        if " = " not in line:
            continue
        if ops.category[row].lower().startswith(_CATEGORY) or opcode(line, ops.name[row]) in _OPCODES:
            arrays = tuple((kind, _dims(text)) for kind, text in _ARRAY.findall(line.partition(" = ")[2]))
            if arrays:
                found.append(Matmul(ops.name[row], arrays, ps_to_ms(int(own[row])), ops.source[row]))
    return sorted(found, key=lambda each: -each.self_ms)


def _dims(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",") if each)


def _padding(dims: tuple[int, ...], sublanes: int, lanes: int) -> float:
    rows, columns = dims[-2:]
    if not rows or not columns:
        return 0.0
    whole = -(-rows // sublanes) * sublanes * -(-columns // lanes) * lanes
    return 1 - rows * columns / whole
