"""A program's instructions with the Python stack that they come from, for comparing what two programs compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tpuprof.decode.hlo_proto import frames_of, parse_module_proto
from tpuprof.errors import TpuprofError


class TracedOp(NamedTuple):
    """What makes an instruction the same in two programs: shapes are protocol buffers, those of operands in order."""

    opcode: bytes
    # File and line of each frame, the innermost first.
    stack: tuple[tuple[str, int], ...]
    result: bytes
    operands: tuple[bytes, ...]


def traced_ops(data: bytes, wanted: Callable[[bytes], bool]) -> Iterator[TracedOp]:
    """The instructions of a serialized program that have a stack and a wanted opcode; none where it is no program."""
    try:
        module = parse_module_proto(data)
    except TpuprofError:
        return
    shapes = {
        each.id: each.shape.SerializeToString()
        for computation in module.computations
        for each in computation.instructions
    }
    for computation in module.computations:
        for each in computation.instructions:
            if wanted(each.opcode):
                stack = frames_of(module.stack_frame_index, each.metadata.stack_frame_id)
                operands = tuple(sorted(shapes.get(key, b"") for key in each.operand_ids))
                if stack:
                    yield TracedOp(each.opcode, stack, shapes[each.id], operands)
