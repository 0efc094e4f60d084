"""Floating-point operations of one matrix product."""

from __future__ import annotations

import math
import re

from tpuprof.decode.hlo import Computation, Instruction


def dot_flops(computation: Computation, dot: Instruction) -> int:
    """Multiplications and additions of a `dot`; 0 where its left operand is not in the computation."""
    left = computation.instructions.get(dot.operands[0]) if dot.operands else None
    if left is None:
        return 0
    axes = [int(part) for part in re.findall(r"\d+", dot.attributes.get("lhs_contracting_dims", ""))]
    contracted = math.prod(left.shape.dimensions[axis] for axis in axes if axis < len(left.shape.dimensions))
    return 2 * dot.shape.count * contracted
