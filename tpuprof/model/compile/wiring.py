"""Whether two programs of the same ops compute the same: each op is known by what it is given, back to the inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuprof.model.compile.outline import type_of
from tpuprof.model.compile.places import source_of

if TYPE_CHECKING:
    from tpuprof.decode.hlo import Computation, HloModule, Instruction

# Numbers that the compiler gives out, and what it says beside the op: they change nothing of what is computed.
_BESIDE = frozenset({"channel_id", "sharding", "frontend_attributes"})


def rewired(new: HloModule, old: HloModule) -> str | None:
    """The source line of the first op that the old program does not have, "" where it has none; None where both compute
    the same.

    A sample that a coin flips, or a branch that Python takes on another one, gives the same number of the same ops.
    """
    known = frozenset(_Known(old).of(old.entry))
    numbers = _Known(new).of(new.entry)
    changed = [each for each, number in zip(new.entry, numbers, strict=True) if number not in known]
    if not changed:
        return None
    return next(filter(None, map(source_of, changed)), "")


class _Known:
    """What each op of a program computes, as a number that is the same in both programs."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._results: dict[str, int] = {}

    def of(self, computation: Computation) -> list[int]:
        """One number per op of the computation, in its order."""
        found: dict[str, int] = {}
        for each in computation:
            found[each.name] = hash((*self._itself(each), *(found.get(name, 0) for name in each.operands)))
        return [found[each.name] for each in computation]

    def _itself(self, each: Instruction) -> tuple[object, ...]:
        beside = tuple(sorted((k, v) for k, v in each.attributes.items() if k not in _BESIDE))
        called = tuple(self._result(name) for name in each.called_names())
        return (each.opcode, type_of(each), each.literal, each.parameter_number, beside, called)

    def _result(self, name: str) -> int:
        """What a computation that an op calls returns."""
        computation = self._module.computations.get(name)
        if computation is None:
            return 0
        if name not in self._results:
            self._results[name] = 0  # a damaged program may call itself
            numbers = self.of(computation)
            at = next((at for at, each in enumerate(computation) if each.is_root), len(numbers) - 1)
            self._results[name] = numbers[at] if numbers else 0
        return self._results[name]
