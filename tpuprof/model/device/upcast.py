"""Whether an op writes a bfloat16 array out again as float32: the same numbers in twice the bytes."""

from __future__ import annotations

from functools import lru_cache

from tpuprof.decode.hlo_shape import Shape, parse_shape
from tpuprof.model.device.op_kind import ARRAY, is_matmul, opcode

NARROW, WIDE = "bf16", "f32"


@lru_cache(maxsize=65_536)  # the devices of a host run the same ops
def writes_upcast(long_name: str, name: str, category: str) -> bool:
    """Whether a result is float32 where an operand of its dimensions is bfloat16, and none of them is float32.

    With a float32 operand of these dimensions the op adds to what was float32 before: master weights, a sum of
    gradients. The result of a matrix multiplication is a sum, which float32 is right for, and so is that of a kernel
    of attention, whose body nothing here reads.
    """
    if WIDE not in long_name or NARROW not in long_name or is_matmul(category, long_name, name):
        return False
    code = opcode(long_name, name)
    head, found, rest = long_name.partition(f" {code}(")
    if not found or code == "custom-call":
        return False
    operands = _shapes(rest)
    wide = {each.dimensions for each in operands if each.element_type == WIDE}
    narrow = {each.dimensions for each in operands if each.element_type == NARROW}
    return any(
        each.element_type == WIDE and len(each.dimensions) > 1 and each.dimensions in narrow - wide
        for each in _shapes(head)
    )


def _shapes(text: str) -> list[Shape]:
    return [parse_shape(each) for each in ARRAY.findall(text)]
