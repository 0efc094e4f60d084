"""What fusions do, from the program: the element type that is multiplied inside, and whether rows are looked up.

A fusion's line names what the fusion reads and writes. Under autocast it reads float32 weights, which it converts to
bfloat16 before it multiplies them; and an embedding's lookup has the line of any other fusion. Only the program inside
the fusion tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tpuprof.decode.hlo_shape import ELEMENT_TYPES
from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.errors import TpuprofError
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.op_facts import LOOKUPS, narrower
from tpuprof.model.device.op_kind import opcode

if TYPE_CHECKING:
    from tpuprof.decode import hlo_pb2

_PRODUCTS = (b"dot", b"convolution")
_LOOKUPS = tuple(each.encode() for each in LOOKUPS)
# How many fusions lie in one another at most (fusions): real ones hold two or three.
NESTED_AT_MOST = 8
# A lookup is what a fusion is about where it has at least this share of the elements of the fusion's largest array: a
# fusion that looks up a few numbers beside its own work does not count (share; a judgement).
LOOKUP_FROM_SHARE = 0.5


class Fused(NamedTuple):
    """What a fusion does. `multiplied` is the element type that its largest multiplication reads, empty without one.

    `looks_up` is whether it gathers or scatters rows, and multiplies nothing.
    """

    multiplied: str
    looks_up: bool


def read_fusions(devices: Iterable[DeviceActivity], protos: Mapping[str, bytes]) -> None:
    """Note what the TPUs' fusions do, as far as `protos` has their programs."""
    read: list[dict[int, Fused]] = []
    for device in devices:
        ops = device.ops
        if device.type == "CPU" or device.is_gpu:
            continue  # no rule asks it there
        if any(ops.fused is each for each in read):
            continue  # devices of one program share what is known of its ops
        read.append(ops.fused)
        if protos.keys().isdisjoint(ops.program):
            continue
        for row in np.flatnonzero(ops.where(_is_fusion)).tolist():
            data = protos.get(ops.program[row])
            found = _fusions(data).get(ops.name[row]) if data is not None else None
            if found is not None:
                ops.fused[row] = found


def _is_fusion(long_name: str, name: str, _: str) -> bool:
    return opcode(long_name, name) == "fusion"


@lru_cache(maxsize=PROGRAMS_KEPT)
def _fusions(data: bytes) -> dict[str, Fused]:
    """What each fusion of a program does, by name; none where the bytes are no program."""
    from tpuprof.decode.hlo_proto import parse_module_proto

    try:
        module = parse_module_proto(data)
    except TpuprofError:
        return {}
    computations = {each.id: each for each in module.computations}
    found = {}
    for computation in module.computations:
        for each in computation.instructions:
            if each.opcode == b"fusion":
                inside = _Inside()
                inside.add(each, computations, NESTED_AT_MOST)
                found[each.name.decode("utf-8", "replace")] = inside.fused()
    return found


class _Inside:
    """What is in a fusion: (elements read, element type) of the largest product, elements of lookups and arrays."""

    def __init__(self) -> None:
        self._product = (0, "")
        self._looked_up = 0
        self._largest = 0

    def fused(self) -> Fused:
        multiplied = self._product[1]
        looked_up = self._looked_up and self._looked_up >= LOOKUP_FROM_SHARE * self._largest
        return Fused(multiplied, bool(looked_up) and not multiplied)

    def add(
        self,
        fusion: hlo_pb2.HloInstructionProto,
        computations: dict[int, hlo_pb2.HloComputationProto],
        nested: int,
    ) -> None:
        for called in fusion.called_computation_ids if nested else ():
            inside = computations.get(called)
            table = {each.id: each for each in inside.instructions} if inside is not None else {}
            for each in table.values():
                read = [table[key].shape for key in each.operand_ids if key in table]
                if each.opcode in _PRODUCTS:
                    types = [ELEMENT_TYPES.get(shape.element_type, "") for shape in read]
                    self._product = max(self._product, (sum(map(_elements, read)), narrower(types)))
                elif each.opcode in _LOOKUPS:
                    # A scatter goes through its updates, a gather through its result; the table may be far larger.
                    moved = (
                        _elements(read[-1]) if each.opcode == b"scatter" and read else _elements(each.shape)
                    )
                    self._looked_up = max(self._looked_up, moved)
                elif each.opcode == b"fusion":
                    self.add(each, computations, nested - 1)
                elif each.opcode != b"parameter":
                    self._largest = max(self._largest, _elements(each.shape))


def _elements(shape: hlo_pb2.ShapeProto) -> int:
    return prod(shape.dimensions) if not shape.tuple_shapes else 0
