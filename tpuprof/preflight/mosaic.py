"""Products in a Pallas kernel's code. Runs in the compile worker, since jaxlib reads the kernel's Mosaic module.

A kernel whose author states no work is known by what it is made of: every product in its code, times the rounds of its
loops and of its grid. What a kernel decides to skip while it runs (blocks that a mask leaves out) is counted as if it
ran, so the sum is the most that the kernel may do.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterator
from typing import Any

from tpuprof.preflight import adapter

# A kernel's Mosaic module in the configuration of its call, in HLO text (quotes are escaped there) or in a proto.
_BODY = re.compile(r'\\?"body\\?":\s*\\?"([A-Za-z0-9+/=]+)')
# Names of the ops, less the dialect: modules that are written for a reader of another version carry a prefix.
_PRODUCTS = ("tpu.matmul", "vector.contract")
_LOOP = "scf.for"
_GRID = "iteration_bounds"
_AXES = re.compile(r"dot_dimension_numbers<\[([0-9, ]*)\]")
_VECTOR = re.compile(r"vector<((?:\d+x)+)")


def body_of(configuration: str) -> str:
    """The kernel's module in base64, as a call's configuration has it; empty where it has none."""
    found = _BODY.search(configuration)
    return found.group(1) if found else ""


def name_of(body: str) -> str:
    """The name under which a kernel's products are kept."""
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def all_products(hlo_text: str) -> dict[str, int]:
    """FLOPs of one execution of each kernel of a program, by `name_of`; without those that cannot be read."""
    found = {}
    for body in sorted(set(_BODY.findall(hlo_text))):
        flops = products(body)
        if flops is not None:
            found[name_of(body)] = flops
    return found


def products(body: str) -> int | None:
    """FLOPs of all products in a kernel; None where its module cannot be read or a bound is known at run time only."""
    try:
        module = adapter.kernel_module(base64.b64decode(body, validate=True))
        functions = list(module.body.operations)
        main = next((each for each in functions if _GRID in each.attributes), functions[0])
        grid = [int(each) for each in main.attributes[_GRID]] if _GRID in main.attributes else []
        if any(each < 0 for each in grid):
            return None
        return math.prod(grid) * _block_products(main)
    # A newer jaxlib may read modules in another way: the kernel then counts as before, by what it states.
    except (ImportError, AttributeError, LookupError, TypeError, ValueError, RuntimeError):
        return None


def _block_products(op: Any) -> int:
    """FLOPs of the products below an op; both ways of a condition count."""
    total = 0
    for each in _inside(op):
        name = _plain(each)
        if name in _PRODUCTS:
            total += _product(each)
        elif name == _LOOP:
            total += _rounds(each) * _block_products(each)
        else:
            total += _block_products(each)
    return total


def _inside(op: Any) -> Iterator[Any]:
    for region in op.regions:
        for block in region:
            yield from (each.operation for each in block)


def _plain(op: Any) -> str:
    return str(op.name).removeprefix("stable_mosaic.")


def _product(op: Any) -> int:
    left, right, out = (_shape(str(each.type)) for each in list(op.operands)[:3])
    axes = (
        _AXES.search(str(op.attributes["dimension_numbers"]))
        if "dimension_numbers" in op.attributes
        else None
    )
    if axes is not None:
        contracted = math.prod(left[int(axis)] for axis in axes.group(1).split(",") if axis.strip())
    else:
        # (m, k) x (k, n): the squares of the sizes leave k.
        contracted = math.isqrt(math.prod(left) * math.prod(right) // max(math.prod(out), 1))
    return 2 * math.prod(out) * contracted


def _shape(type_text: str) -> list[int]:
    found = _VECTOR.search(type_text)
    return [int(each) for each in found.group(1).split("x") if each] if found else []


def _rounds(loop: Any) -> int:
    """How often a loop runs, 1 where a bound is known at run time only."""
    bounds = [_constant(each) for each in list(loop.operands)[:3]]
    if any(each is None for each in bounds):
        return 1
    start, end, stride = (each or 0 for each in bounds)
    return max(0, -(-(end - start) // stride)) if stride > 0 else 1


def _constant(value: Any) -> int | None:
    owner = getattr(value, "owner", None)
    if owner is None or not hasattr(owner, "attributes") or not _plain(owner).endswith("arith.constant"):
        return None
    found = re.match(r"-?\d+", str(owner.attributes["value"]))
    return int(found.group(0)) if found else None
