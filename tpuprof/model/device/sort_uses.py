"""Sorts of which the program uses a part: the few largest values, or the first of a permutation.

The compiled program tells. What a sort gives is followed to where it is used; a slice of it says how much that is. A
permutation is a sort of a sort, and has the use of the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.errors import TpuprofError
from tpuprof.model.device.op_kind import SORTS

if TYPE_CHECKING:
    from tpuprof.decode.hlo import Computation, HloModule, Instruction
    from tpuprof.model.device.activity import DeviceActivity

# Share of a device's time in sorts from which programs are read for them (share): half of what the rule fails from.
READ_FROM_SHARE = 0.05
# Share of what a sort gives up to which the program uses a part of it (share): a judgement, half.
PART_UP_TO = 0.5
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
    """Names of a program's sorts of which at most half is used."""
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
        self._users: dict[str, dict[str, list[Instruction]]] = {}
        # By computation and instruction: many ways lead to one value.
        self._known: dict[tuple[str, str], float] = {}
        self._callers: dict[str, list[tuple[Computation, Instruction]]] = {}
        for computation in module.computations.values():
            for each in computation:
                for name in each.called_names() if each.opcode in _CALLS else ():
                    self._callers.setdefault(name, []).append((computation, each))

    def share(self, computation: Computation, sort: Instruction) -> float:
        """The largest share of a sort's result that any use of it takes."""
        shape = sort.shape.elements[0] if sort.shape.is_tuple else sort.shape
        self._known = {}
        return self._used(computation, sort, prod(shape.dimensions))

    def _used(self, computation: Computation, made: Instruction, size: int) -> float:
        asked = computation.name, made.name
        if asked not in self._known:
            self._known[asked] = _WHOLE  # where a computation calls itself
            self._known[asked] = self._largest(computation, made, size) if size else _WHOLE
        return self._known[asked]

    def _largest(self, computation: Computation, made: Instruction, size: int) -> float:
        uses = self._users_in(computation).get(made.name, [])
        shares = [self._by(computation, made, use, size) for use in uses]
        if computation.root is made:
            shares.append(self._after_the_call(computation, size))
        return max(shares, default=0.0)

    def _users_in(self, computation: Computation) -> dict[str, list[Instruction]]:
        """What uses each value of a computation."""
        if computation.name not in self._users:
            found = self._users[computation.name] = {}
            for each in computation:
                for name in dict.fromkeys(each.operands):
                    found.setdefault(name, []).append(each)
        return self._users[computation.name]

    def _by(self, computation: Computation, made: Instruction, use: Instruction, size: int) -> float:
        """How much of it one instruction uses, by itself or by what it is made into."""
        if use.opcode in ("slice", "dynamic-slice") and use.operands[0] == made.name:
            return prod(use.shape.dimensions) / size
        if use.opcode in _CALLS and use.called_names():
            return self._inside(use, made, size)
        if use.opcode in ("get-tuple-element", "sort") or use.opcode in _HANDS_ON:
            return self._used(computation, use, size)
        if use.opcode == "tuple" and computation.root is use and computation is not self._module.entry:
            return self._after_the_call(computation, size)
        return _WHOLE

    def _inside(self, call: Instruction, made: Instruction, size: int) -> float:
        """How much of it the computation uses that a call or a fusion runs."""
        inside = self._module.computations.get(call.called_names()[0])
        if inside is None:
            return _WHOLE
        given = inside.parameters()
        places = [at for at, name in enumerate(call.operands) if name == made.name and at < len(given)]
        return max((self._used(inside, given[at], size) for at in places), default=_WHOLE)

    def _after_the_call(self, computation: Computation, size: int) -> float:
        """How much of it is used by what runs the computation that returns it; all of what a program returns."""
        callers = self._callers.get(computation.name, [])
        return max((self._used(outer, call, size) for outer, call in callers), default=_WHOLE)
