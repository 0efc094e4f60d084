"""The element type that a fused matrix multiplication reads, from the program: a fusion converts its inputs itself.

A fusion's line names what the fusion reads. Under autocast that is float32 weights, which it converts to bfloat16
before it multiplies them. Only the program inside the fusion tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from tpuprof.decode.hlo_shape import ELEMENT_TYPES
from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.errors import TpuprofError
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.op_facts import FLOATS, narrower
from tpuprof.model.device.op_kind import is_matmul, opcode

if TYPE_CHECKING:
    from tpuprof.decode import hlo_pb2

_PRODUCTS = (b"dot", b"convolution")
# How many fusions lie in one another at most (fusions): real ones hold two or three.
NESTED_AT_MOST = 8


def read_product_types(devices: Iterable[DeviceActivity], protos: Mapping[str, bytes]) -> None:
    """Note for the devices' fused multiplications with a float32 operand what the programs multiply."""
    for device in devices:
        ops = device.ops
        if device.type == "CPU" or device.is_gpu:
            continue  # there float32 is as fast as the device gets, or the lines name no operands
        for row, line in enumerate(ops.long_name):
            name = ops.name[row]
            if not any(wide in line for wide in FLOATS) or opcode(line, name) != "fusion":
                continue
            data = protos.get(ops.module[row])
            if data is not None and is_matmul(ops.category[row], line, name):
                found = _types(data).get(name)
                if found:
                    ops.multiplied[row] = found


@lru_cache(maxsize=PROGRAMS_KEPT)
def _types(data: bytes) -> dict[str, str]:
    """By fusion the element type that its largest multiplication reads; without those that multiply nothing."""
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
                _, element_type = _largest(each, computations, NESTED_AT_MOST)
                found[each.name.decode("utf-8", "replace")] = element_type
    return {name: element_type for name, element_type in found.items() if element_type}


def _largest(
    fusion: hlo_pb2.HloInstructionProto, computations: dict[int, hlo_pb2.HloComputationProto], nested: int
) -> tuple[int, str]:
    """(elements read, element type) of the largest multiplication in a fusion; (0, "") where there is none."""
    best = (0, "")
    for called in fusion.called_computation_ids if nested else ():
        inside = computations.get(called)
        table = {each.id: each for each in inside.instructions} if inside is not None else {}
        for each in table.values():
            if each.opcode in _PRODUCTS:
                read = [table[key].shape for key in each.operand_ids if key in table]
                types = [ELEMENT_TYPES.get(shape.element_type, "") for shape in read]
                best = max(best, (sum(prod(shape.dimensions) for shape in read), narrower(types)))
            elif each.opcode == b"fusion":
                best = max(best, _largest(each, computations, nested - 1))
    return best
