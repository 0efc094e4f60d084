"""Which instructions of a program its results are made of, as a compiler's search for dead code finds them.

Values are followed part by part: through tuples, and into what fusions, calls and loops run. A loop's result is made of
what its turns read, and of what those make again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tpuprof.decode.hlo import Computation, HloModule, Instruction

# All parts of a value.
WHOLE = -1
# A value of a computation: the name of its instruction, and which part of it.
_Wanted: TypeAlias = "tuple[str, int]"
# What is read of each parameter of a computation, by its number.
_Needs: TypeAlias = "dict[int, set[int]]"
_RUNS_ONE = frozenset({"fusion", "call"})
# Part by part, a result is made of the operand at its place.
_PART_BY_PART = frozenset({"all-reduce", "all-gather", "reduce-scatter", "collective-permute", "tuple"})
# Work for others than the program's results.
_FOR_OTHERS = frozenset({"outfeed", "infeed", "send", "send-done", "recv", "recv-done"})
# A callback may print or save what it is given.
_ASKS_HOST = re.compile(r"callback|host", re.IGNORECASE)


def live_names(module: HloModule, without: Collection[int] = ()) -> dict[str, frozenset[int]]:
    """The instructions that the program's results are made of, each with the parts of it that are read.

    Results at the places `without` are left out.
    """
    live = _Live(module)
    live.follow_results(without)
    return {name: frozenset(parts) for name, parts in live.parts.items()}


class _Live:
    """Follows values back to what they are made of; `parts` has what was read of each instruction."""

    def __init__(self, module: HloModule) -> None:
        self.parts: dict[str, set[int]] = {}
        self._module = module
        self._known: dict[tuple[str, frozenset[_Wanted]], _Needs] = {}

    def follow_results(self, without: Collection[int]) -> None:
        """Follow the program's results, and what it does for others than those."""
        entry = self._module.entry
        root = entry.root
        if root is None:
            return
        wanted = {(each.name, WHOLE) for each in entry if _is_for_others(each)}
        if root.opcode == "tuple":
            wanted |= {(name, WHOLE) for at, name in enumerate(root.operands) if at not in without}
        elif 0 not in without:
            wanted.add((root.name, WHOLE))
        self._follow(entry, wanted)

    def _follow(self, computation: Computation | None, wanted: Iterable[_Wanted]) -> _Needs:
        """What is read of the parameters of a computation of which these values are wanted."""
        if computation is None:
            return {}
        asked = computation.name, frozenset(wanted)
        if asked in self._known:
            return self._known[asked]
        needs: _Needs = {}
        self._known[asked] = needs  # where it calls itself
        seen: set[_Wanted] = set()
        waiting = list(asked[1])
        while waiting:
            name, part = value = waiting.pop()
            each = computation.instructions.get(name)
            if each is None or value in seen:
                continue
            seen.add(value)
            self.parts.setdefault(name, set()).add(part)
            if each.opcode == "parameter":
                needs.setdefault(each.parameter_number or 0, set()).add(part)
            else:
                waiting += self._made_of(each, part)
        return needs

    def _made_of(self, each: Instruction, part: int) -> list[_Wanted]:
        """The operands that a part of an instruction is made of."""
        if each.opcode == "get-tuple-element":
            return [(each.operands[0], int(each.attributes.get("index", 0)))] if each.operands else []
        if each.opcode == "optimization-barrier":
            return [(name, part) for name in each.operands]
        if each.opcode in _PART_BY_PART and 0 <= part < len(each.operands):
            return [(each.operands[part], WHOLE)]
        if each.opcode in _RUNS_ONE and each.called_names():
            return self._of_call(each, part)
        if each.opcode == "while":
            return self._of_loop(each, part)
        for name in each.called_names():
            # Branches, and what runs beside the program: all of it.
            called = self._module.computations.get(name)
            self._follow(called, _result(called, WHOLE))
        return [(name, WHOLE) for name in each.operands]

    def _of_call(self, each: Instruction, part: int) -> list[_Wanted]:
        inside = self._module.computations.get(each.called_names()[0])
        needs = self._follow(inside, _result(inside, part))
        return [
            (each.operands[number], read)
            for number, parts in needs.items()
            if number < len(each.operands)
            for read in parts
        ]

    def _of_loop(self, each: Instruction, part: int) -> list[_Wanted]:
        body, condition = (self._module.called(each, name) for name in ("body", "condition"))
        read = {part} | self._follow(condition, _result(condition, WHOLE)).get(0, set())
        while True:
            wanted = {value for one in read for value in _result(body, one)}
            more = read | self._follow(body, wanted).get(0, set())
            if more == read:
                return [(name, one) for name in each.operands[:1] for one in read]
            read = more


def _result(computation: Computation | None, part: int) -> list[_Wanted]:
    """The value that a part of a computation's result is."""
    root = computation.root if computation is not None else None
    if root is None:
        return []
    if root.opcode == "tuple" and 0 <= part < len(root.operands):
        return [(root.operands[part], WHOLE)]
    return [(root.name, part)]


def _is_for_others(each: Instruction) -> bool:
    if each.opcode == "custom-call":
        return bool(_ASKS_HOST.search(each.custom_call_target))
    return each.opcode in _FOR_OTHERS
