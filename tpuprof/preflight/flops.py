"""Floating-point operations of matrix products and convolutions, in traced and in compiled programs."""

from __future__ import annotations

import re

from tpuprof.decode.hlo import Computation, HloModule, Instruction
from tpuprof.decode.hlo_flops import dot_flops
from tpuprof.preflight import mosaic

_DIM_LABELS = re.compile(r"^([0-9a-z]+)_([0-9a-z]+)->([0-9a-z]+)$")
_WINDOW_FIELD = re.compile(r"(\w+)=([0-9x_\-]+)")
# A Pallas kernel's own statement of its work, where its author made one.
_KERNEL_WORK = re.compile(r'"cost_estimate":\{([^}]*)\}')
_WORK_FIELD = re.compile(r'"(\w+)":\s*"?(\d+)')
KERNEL = "tpu_custom_call"


def kernel_work(instruction: Instruction) -> dict[str, int]:
    """`flops` and `bytes_accessed` that a Pallas kernel states of itself; empty where it states none."""
    if instruction.custom_call_target != KERNEL:
        return {}
    found = _KERNEL_WORK.search(instruction.backend_config)
    return {key: int(value) for key, value in _WORK_FIELD.findall(found.group(1))} if found else {}


def kernel_flops(module: HloModule, instruction: Instruction) -> int:
    """FLOPs of a Pallas kernel: as it states them, else all products in its code where a compile read them, else 0."""
    stated = kernel_work(instruction).get("flops", 0)
    if stated or not module.kernel_flops or instruction.custom_call_target != KERNEL:
        return stated
    return module.kernel_flops.get(mosaic.name_of(mosaic.body_of(instruction.backend_config)), 0)


def instruction_flops(module: HloModule, instruction: Instruction) -> int:
    """FLOPs of one execution of an instruction, its fused computation included; loops are not multiplied out."""
    if instruction.opcode in ("fusion", "call", "async-start"):
        inner = [
            module.computations[name] for name in instruction.called_names() if name in module.computations
        ]
        return sum(computation_flops(module, each) for each in inner)
    return kernel_flops(module, instruction)


def computation_flops(module: HloModule, computation: Computation) -> int:
    """FLOPs of all products in a computation and those it calls, loops multiplied by their trips.

    A Pallas kernel counts with what it states, else with the products in its code.
    """
    total = 0
    for each in computation:
        if each.opcode == "dot":
            total += dot_flops(computation, each)
        elif each.opcode == "convolution":
            total += _convolution(computation, each)
        elif each.opcode == "custom-call":
            total += kernel_flops(module, each)
        elif each.opcode == "while":
            body = module.called(each, "body")
            trips = module.trip_count(each, computation) or 1
            total += trips * computation_flops(module, body) if body else 0
        elif each.opcode in ("fusion", "call", "async-start", "conditional"):
            inner = [module.computations[name] for name in each.called_names() if name in module.computations]
            parts = [computation_flops(module, part) for part in inner]
            total += max(parts, default=0) if each.opcode == "conditional" else sum(parts)
    return total


def _convolution(computation: Computation, conv: Instruction) -> int:
    """2 x multiply-adds: for each output position only the window positions that meet data, not padding."""
    labels = _DIM_LABELS.match(conv.attributes.get("dim_labels", ""))
    sides = [computation.instructions.get(name) for name in conv.operands[:2]]
    if labels is None or len(sides) < 2 or sides[0] is None or sides[1] is None:
        return 0
    left, right, out = (labels.group(index) for index in (1, 2, 3))
    inputs, kernel, result = sides[0].shape.dimensions, sides[1].shape.dimensions, conv.shape.dimensions
    window = _window(conv.attributes.get("window", ""))
    multiply_adds = result[out.index("b")] * result[out.index("f")] * kernel[right.index("i")]
    groups = int(conv.attributes.get("batch_group_count", "1") or 1)
    for axis in range(len(left) - 2):
        digit = str(axis)
        multiply_adds *= _valid_positions(
            inputs[left.index(digit)], kernel[right.index(digit)], result[out.index(digit)], window, axis
        )
    return 2 * multiply_adds // max(groups, 1)


def _valid_positions(size: int, kernel: int, result: int, window: dict[str, list[str]], axis: int) -> int:
    """Pairs of an output and a kernel position of one axis that meet an input element."""

    def number(key: str, default: int) -> int:
        values = window.get(key, [])
        return int(values[axis]) if axis < len(values) else default

    stride, base, dilate = number("stride", 1), number("lhs_dilate", 1), number("rhs_dilate", 1)
    pads = window.get("pad", [])
    low = int(pads[axis].split("_")[0]) if axis < len(pads) else 0
    if size == 1 and kernel == 1:
        return result
    if result * kernel > 1 << 22:
        return result * kernel
    found = 0
    reach = (size - 1) * base + 1
    for place in range(result):
        for tap in range(kernel):
            position = place * stride + tap * dilate - low
            found += 0 <= position < reach and position % base == 0
    return found


def _window(text: str) -> dict[str, list[str]]:
    return {key: value.split("x") for key, value in _WINDOW_FIELD.findall(text)}
