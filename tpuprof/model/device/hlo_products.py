"""Matrix products of a program by its HLO, where the trace states no FLOPs: what JAX's CPU client runs.

JAX names each op by the transformations it went through (`jit(train)/transpose(jvp())/dot_general`), so that a layer's
products of the forward and of the backward pass differ by name, line or shape.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from tpuprof.decode.hlo import HloModule, Instruction
from tpuprof.decode.hlo_flops import dot_flops
from tpuprof.decode.hlo_proto import read_hlo_proto
from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.errors import TpuprofError
from tpuprof.records import record

# How JAX begins the name of every op of a jitted function.
JITTED = "jit("
# What is in a program and is no work: it needs no code.
_NO_WORK = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})
_ENTRY_NUMBER = re.compile(r"\.\d+(?=/|$)")


@record(frozen=True)
class Product:
    """A matrix product outside any loop: what it is (name and shape), its source line, and its FLOPs."""

    label: str
    source: str
    flops: int


@record(frozen=True)
class Products:
    """The products of a program, and how often each sort of op occurs outside its loops: (name, shape), line."""

    products: tuple[Product, ...]
    ops: dict[tuple[str, str, str], int]

    def repeated_share(self, times: int) -> tuple[float, float]:
        """Share of the ops whose sort occurs `times` at least, one may lack; without and with those of no name."""
        every = sum(self.ops.values())
        repeated = sum(count for sort, count in self.ops.items() if sort[0] and count >= times - 1)
        unnamed = sum(count for sort, count in self.ops.items() if not sort[0])
        return (repeated / every, (repeated + unnamed) / every) if every else (0.0, 0.0)


@lru_cache(maxsize=PROGRAMS_KEPT)
def jax_products(data: bytes) -> Products | None:
    """The products of a serialized program of JAX; None of another framework's, and of what cannot be read."""
    try:
        module = read_hlo_proto(data)
    except TpuprofError:
        return None
    outside = list(_outside_loops(module, module.entry_name))
    if not any(each.op_name.startswith(JITTED) for each, _ in outside):
        return None
    ops: Counter[tuple[str, str, str]] = Counter()
    for each, _ in outside:
        if each.opcode not in _NO_WORK:
            ops[(_name(each), f"{each.opcode} {each.shape}", each.source)] += 1
    found = [
        Product(f"{_name(each)} {each.shape}", each.source, dot_flops(module.computations[within], each))
        for each, within in outside
        if each.opcode == "dot"
    ]
    return Products(tuple(found), dict(ops))


def _outside_loops(module: HloModule, name: str) -> list[tuple[Instruction, str]]:
    """Instructions that the program runs once, with the computation each is in; what is fused is one instruction."""
    found: list[tuple[Instruction, str]] = []
    waiting, seen = [name], {name}
    while waiting:
        within = waiting.pop()
        for each in module.computations.get(within) or ():
            if each.opcode != "call":
                found.append((each, within))
                continue
            called = [other for other in each.called_names() if other not in seen]
            seen.update(called)
            waiting += called
    return found


def _name(instruction: Instruction) -> str:
    return _ENTRY_NUMBER.sub("", instruction.op_name)
