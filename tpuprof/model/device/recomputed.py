"""Ops of programs that compute again what the program had computed before: activations that were not kept.

Gradient checkpointing keeps a block's input alone, and runs the block again for its gradients. XLA merges what is
computed twice, unless a barrier stands between, as checkpointing sets it. So a product that a compiled program holds
twice, of the same values, was asked for twice. JAX names such ops as well, which tells of those in loops, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tpuprof.decode.hlo import PRODUCTS
from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.errors import TpuprofError
from tpuprof.model.compile.hlo_metadata import RECOMPUTED
from tpuprof.model.device.weight_uses import WeightUses
from tpuprof.records import record

if TYPE_CHECKING:
    from tpuprof.decode.hlo import Computation, HloModule, Instruction

# How XLA calls the copies of ops that it makes itself where memory is short.
_BY_XLA = ".remat"
# Instructions that hand a value on.
_HANDS_ON = frozenset({"copy", "opt-barrier", "optimization-barrier", "copy-start", "copy-done"})
_RESHAPES = frozenset({"reshape", "bitcast"})
_RUNS_ONE = frozenset({"fusion", "call"})
# Instructions whose results are no new values, or which one that runs by itself makes.
_NO_RESULTS = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "call"})
# Those beside products that compute what a block does: what else is there twice is moved about, as weights are that XLA
# fetches ahead of each use.
_COMPUTES = frozenset({"fusion", "reduce", "reduce-window", "scatter", "gather", "sort"})
# Instructions that give another value each time, as far as the program tells.
_ALONE = frozenset({"rng", "infeed", "recv", "custom-call"})
# What the compiler says beside an op: it changes nothing of what is computed.
_BESIDE = frozenset({"channel_id", "sharding", "frontend_attributes", "operand_precision", "algorithm"})
# Calls within calls that are followed (calls): a program nests a few.
_DEPTH = 20
# Instructions that are followed in all calls of a program (instructions): some seconds. The largest programs of kept
# captures have 50,000, each called once or twice.
VISITS_AT_MOST = 1_000_000
# What an instruction computes: a number, or one for each part of a tuple.
_Value: TypeAlias = "int | tuple[_Value, ...]"


@record(frozen=True)
class Recomputed:
    """Ops of programs that compute again, each as program and op, and the bytes of their results.

    `bytes` is of the program in which that is most, of all of these ops together: what is fused with them has results
    that are not among them. None where a loop does not tell how often it runs.
    """

    ops: frozenset[tuple[str, str]] = frozenset()
    bytes: int | None = 0


class OfProgram(NamedTuple):
    """The same of one program: names of ops, and the bytes of their results."""

    ops: frozenset[str] = frozenset()
    bytes: int | None = 0


def recomputed(protos: Mapping[str, bytes]) -> Recomputed:
    """What these programs compute again."""
    found = {name: _of_program(data) for name, data in protos.items()}
    sizes = [each.bytes for each in found.values()]
    return Recomputed(
        frozenset((name, op) for name, each in found.items() for op in each.ops),
        None if None in sizes else max((size for size in sizes if size is not None), default=0),
    )


@lru_cache(maxsize=PROGRAMS_KEPT)
def _of_program(data: bytes) -> OfProgram:
    from tpuprof.decode.hlo_proto import read_hlo_proto

    try:
        return of_module(read_hlo_proto(data))
    except TpuprofError:
        return OfProgram()


def of_module(module: HloModule) -> OfProgram:
    """What one program computes again."""
    found = _marked(module) or [(each, 1) for each in _Values(module).computed_again()]
    own = [(each, turns) for each, turns in found if _BY_XLA not in each.name]
    turns = [times for _, times in own]
    sizes = [(each.shape.bytes or 0) * (times or 0) for each, times in own if each.opcode not in _NO_RESULTS]
    return OfProgram(frozenset(each.name for each, _ in own), None if None in turns else sum(sizes))


def _marked(module: HloModule) -> list[tuple[Instruction, int | None]]:
    """The ops that JAX names so, of those that run by themselves, and how often each runs."""
    return [
        (op, times) for computation, times in _run(module) for op in computation if RECOMPUTED in op.op_name
    ]


def _run(module: HloModule) -> Iterator[tuple[Computation, int | None]]:
    """Computations that run by themselves, and how often each does; None for the turns of a loop that are unknown."""
    waiting: list[tuple[Computation, int | None]] = [(module.entry, 1)]
    seen: set[str] = set()
    while waiting:
        computation, times = waiting.pop()
        if computation.name in seen:
            continue
        seen.add(computation.name)
        yield computation, times
        for each in computation:
            turns = module.trip_count(each, computation) if each.opcode == "while" else 1
            inside = times * turns if times is not None and turns is not None else None
            called = (module.computations.get(name) for name in each.called_names())
            waiting += [(one, inside) for one in called if one and one.name not in module.fused_names]


class _Values:
    """Follows a program in its order, and notes which instructions make a product that there was."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._made: set[_Value] = set()
        self._again = False
        self._visits = 0
        self._weights = WeightUses(len(module.entry.parameters()))
        # The instruction of the program that runs, whatever is fused in it.
        self._running: Instruction | None = None

    def computed_again(self) -> list[Instruction]:
        """The instructions of the program that hold such a product, and those whose result another one had.

        Where more products have a weight and what they are made of in common than are the same to the last instruction,
        those are taken.
        """
        products, others = [], []
        values: dict[str, _Value] = {}
        known: set[_Value] = set()
        entry = self._module.entry
        for each in entry:
            self._again, self._running = False, each
            value = values[each.name] = self._of(each, values, entry, (), 0)
            if self._again:
                products.append(each)
            elif each.opcode in _COMPUTES and value in known:
                others.append(each)
            known.add(value)
        twice = self._weights.second_uses()
        if len(twice) > len(products):
            return twice
        # Without a product, what is there twice is a number or an index that costs nothing.
        return [*products, *others] if products else []

    def _run(self, name: str, given: Sequence[_Value], depth: int) -> _Value:
        """What a computation returns that is given these values."""
        computation: Computation | None = self._module.computations.get(name)
        if computation is None or depth > _DEPTH:
            return hash((name, *given))
        values: dict[str, _Value] = {}
        self._visits += len(computation)
        if self._visits > VISITS_AT_MOST:
            return hash((name, *given))  # calls that multiply, as no compiler writes them
        for each in computation:
            values[each.name] = self._of(each, values, computation, given, depth)
        root = computation.root
        return values[root.name] if root is not None else 0

    def _apart(self, name: str, depth: int) -> _Value:
        """What a computation does that runs in turns, or not at all: its products are none of the program's order."""
        before = self._made, self._again, self._running
        self._made, self._running = set(), None
        value = self._run(name, (), depth)
        self._made, self._again, self._running = before
        return value

    def _of(
        self,
        each: Instruction,
        values: Mapping[str, _Value],
        within: Computation,
        given: Sequence[_Value],
        depth: int,
    ) -> _Value:
        operands = [values.get(name, 0) for name in each.operands]
        if each.opcode == "parameter":
            return self._given(each.parameter_number or 0, within, given)
        if each.opcode in _RUNS_ONE and each.called_names():
            return self._run(each.called_names()[0], operands, depth + 1)
        if each.opcode == "tuple":
            return tuple(operands)
        if operands and (each.opcode in _HANDS_ON or _keeps_shape(each, within)):
            return operands[0] if len(operands) == 1 else tuple(operands)
        return self._made_of(each, operands, depth)

    def _given(self, number: int, within: Computation, given: Sequence[_Value]) -> _Value:
        if number < len(given):
            return given[number]
        if within is not self._module.entry:
            return hash(("parameter", number))  # of a loop's body, or of what a reduction applies
        made = hash(("input", number))
        self._weights.input(made, number)
        return made

    def _made_of(self, each: Instruction, operands: list[_Value], depth: int) -> _Value:
        if each.opcode == "get-tuple-element" and operands:
            made = _part(operands[0], int(each.attributes.get("index", 0)))
            if isinstance(operands[0], tuple):
                return made
        else:
            called = [self._apart(name, depth + 1) for name in each.called_names()]
            made = hash((*_itself(each), *called, *operands))
        self._weights.made(made, each, operands)
        if each.opcode in PRODUCTS:
            self._again = self._again or made in self._made
            self._made.add(made)
            if self._running is not None:
                self._weights.multiplied(each, operands, self._running)
        return made


def _keeps_shape(each: Instruction, within: Computation) -> bool:
    """Whether it is a reshape to the dimensions that there were."""
    source = within.instructions.get(each.operands[0]) if each.opcode in _RESHAPES else None
    return source is not None and source.shape.dimensions == each.shape.dimensions


def _part(value: _Value, at: int) -> _Value:
    if isinstance(value, tuple):
        return value[at] if at < len(value) else 0
    return hash((value, at))


def _itself(each: Instruction) -> Iterable[object]:
    """What an instruction does, however its result is laid out."""
    beside = tuple(sorted((name, said) for name, said in each.attributes.items() if name not in _BESIDE))
    code = "reshape" if each.opcode == "bitcast" else each.opcode
    # The numbers of a long constant may not be there.
    unsaid = each.opcode == "constant" and (not each.literal or "..." in each.literal)
    alone = each.opcode in _ALONE or unsaid
    return (
        code,
        each.shape.element_type,
        tuple(each.shape.dimensions),
        each.literal,
        beside,
        each.name if alone else "",
    )
