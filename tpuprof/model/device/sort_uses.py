"""Sorts of which the program uses a part: the few largest values, or the first of a permutation.

The compiled program tells. What a sort gives is followed to where it is used; a slice of it says how much that is. A
permutation is a sort of a sort, and has the use of the last one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.errors import TpuprofError

if TYPE_CHECKING:
    from tpuprof.decode.hlo import Computation, HloModule, Instruction
    from tpuprof.model.device.activity import DeviceActivity

# What ops that sort are called.
SORTS = re.compile(r"(?:sort|topk)(?:\.|$)", re.IGNORECASE)
# Share of a device's time in sorts from which programs are read for them (share): half of what the rule fails from.
READ_FROM_SHARE = 0.05
# Share of what a sort gives up to which the program uses a part of it (share): a judgement, half.
PART_UP_TO = 0.5
# How far what a sort gives is followed (instructions): real programs have some ten.
HOPS_AT_MOST = 50
# Instructions whose result holds the same values as what they are given.
_HANDS_ON = frozenset(
    {"bitcast", "copy", "reshape", "transpose", "convert", "reverse", "copy-start", "copy-done"}
)
_CALLS = frozenset({"call", "fusion"})
_WHOLE = 1.0


def sorts_for_a_part(device: DeviceActivity, protos: Mapping[str, bytes]) -> frozenset[tuple[str, str]]:
    """Sorts, each as program and op, of which the program uses at most half; empty where sorts take next to no time."""
    names, events = device.ops.name, device.op_events
    rows = [row for row, name in enumerate(names) if SORTS.match(name)]
    if not rows:
        return frozenset()
    spent = int(events.self_ps[np.isin(events.op, rows)].sum())
    if spent < READ_FROM_SHARE * int(events.self_ps.sum()):
        return frozenset()
    programs = {device.ops.program[row] for row in rows} & protos.keys()
    return frozenset((program, name) for program in programs for name in _of_program(protos[program]))


@lru_cache(maxsize=PROGRAMS_KEPT)
def _of_program(data: bytes) -> frozenset[str]:
    from tpuprof.decode.hlo_proto import read_hlo_proto

    try:
        return used_in_part(read_hlo_proto(data))
    except TpuprofError:
        return frozenset()


def used_in_part(module: HloModule) -> frozenset[str]:
    """Names of a program's sorts of which at most half is used, with those of calls that run such a sort alone."""
    uses = _Uses(module)
    return frozenset(
        each.name
        for computation in module.computations.values()
        for each in computation
        if each.opcode == "sort" and uses.share(computation, each) <= PART_UP_TO
    )


class _Uses:
    """Follows what sorts give to where a program uses it."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._callers: dict[str, list[tuple[Computation, Instruction]]] = {}
        for computation in module.computations.values():
            for each in computation:
                for name in each.called_names() if each.opcode in _CALLS else ():
                    self._callers.setdefault(name, []).append((computation, each))

    def share(self, computation: Computation, sort: Instruction) -> float:
        """The largest share of a sort's result that any use of it takes."""
        shape = sort.shape.elements[0] if sort.shape.is_tuple else sort.shape
        return self._used(computation, sort, prod(shape.dimensions), HOPS_AT_MOST)

    def _used(self, computation: Computation, made: Instruction, size: int, hops: int) -> float:
        if not hops or not size:
            return _WHOLE
        uses = [each for each in computation if made.name in each.operands]
        shares = [self._by(computation, made, use, size, hops - 1) for use in uses]
        if computation.root is made:
            shares.append(self._after_the_call(computation, size, hops - 1))
        return max(shares, default=0.0)

    def _by(
        self, computation: Computation, made: Instruction, use: Instruction, size: int, hops: int
    ) -> float:
        """How much of it one instruction uses, by itself or by what it is made into."""
        if use.opcode in ("slice", "dynamic-slice") and use.operands[0] == made.name:
            return prod(use.shape.dimensions) / size
        if use.opcode in _CALLS and use.called_names():
            return self._inside(use, made, size, hops)
        if use.opcode in ("get-tuple-element", "sort") or use.opcode in _HANDS_ON:
            return self._used(computation, use, size, hops)
        if use.opcode == "tuple" and computation.root is use and computation is not self._module.entry:
            return self._after_the_call(computation, size, hops)
        return _WHOLE

    def _inside(self, call: Instruction, made: Instruction, size: int, hops: int) -> float:
        """How much of it the computation uses that a call or a fusion runs."""
        inside = self._module.computations.get(call.called_names()[0])
        if inside is None:
            return _WHOLE
        given = inside.parameters()
        places = [at for at, name in enumerate(call.operands) if name == made.name and at < len(given)]
        return max((self._used(inside, given[at], size, hops) for at in places), default=_WHOLE)

    def _after_the_call(self, computation: Computation, size: int, hops: int) -> float:
        """How much of it is used by what runs the computation that returns it; all of what a program returns."""
        callers = self._callers.get(computation.name, [])
        shares = [self._used(outer, call, size, hops) for outer, call in callers]
        return max(shares, default=_WHOLE)
