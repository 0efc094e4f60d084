"""Ops that compute in double precision, and where a program's doubles begin.

The compiled program tells. A CPU computes arrays of float64 as they are. The compiler for TPUs, which have no units for
float64, splits each array of float64 that comes in into a pair of float32, computes with such pairs, and joins them
where float64 goes out. A cast to float32 reads only one array of the pair, and a cast from float32 joins a constant:
what computes in double precision follows from both arrays of a pair. Sums of pairs are known by their instructions,
also where doubles neither come in nor go out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.errors import TpuprofError
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.units import listed

if TYPE_CHECKING:
    from tpuprof.decode import hlo_pb2
    from tpuprof.decode.hlo import Computation, HloModule, Instruction
    from tpuprof.decode.hlo_shape import Shape

# Types of double precision, as programs write them and as their protocol buffers number them.
TYPES = ("f64", "c128")
_NUMBERS = (12, 18)
# Elements from which an array of doubles counts (elements): a row of a TPU's vector registers. Learning rates, counts
# of steps and losses are below it, and cost nothing in double precision. A judgement.
ARRAY_FROM = 128
# Places at which doubles begin that are named (places).
PLACES_NAMED = 3
# The calls by which the TPU compiler splits an array into a pair of halves, and joins such a pair.
_SPLITS, _JOINS = ("X64SplitLow", "X64SplitHigh"), "X64Combine"
# What the compiler asks of each number of a pair: it leaves infinite ones as they are.
_GUARD = "is-finite"
# Instructions that compute nothing themselves.
_NO_OPS = frozenset(
    ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional")
)
# What torch_xla calls each input, whatever it holds.
_UNNAMED_INPUT = "xla__device_data"


class Doubles(NamedTuple):
    """The ops of a program that compute in double precision, by name, and where its doubles begin."""

    ops: frozenset[str]
    begin: str


_NONE = Doubles(frozenset(), "")


def note_doubles(devices: Iterable[DeviceActivity], protos: Mapping[str, bytes]) -> None:
    """Note of ops whose program is known where the doubles begin that they compute with; nothing where they do not."""
    done: list[dict[int, str | None]] = []
    for device in devices:
        ops = device.ops
        if any(ops.doubles is each for each in done):
            continue  # devices of one program share what is known of its ops
        done.append(ops.doubles)
        known = {program: doubles_of(protos[program]) for program in protos.keys() & set(ops.program)}
        for row, program in enumerate(ops.program):
            found = known.get(program)
            if found is not None:
                # An op whose parts run on several threads is called after its clone.
                name = ops.name[row].removesuffix(".clone")
                ops.doubles[row] = found.begin if name in found.ops or ops.name[row] in found.ops else None


@lru_cache(maxsize=PROGRAMS_KEPT)
def doubles_of(data: bytes) -> Doubles:
    """What of a serialized program is in double precision; nothing where the bytes are no program."""
    from tpuprof.decode.hlo_proto import from_proto, parse_module_proto

    try:
        message = parse_module_proto(data)
        return doubles_in(from_proto(message)) if _has_any(message) else _NONE
    except TpuprofError:
        return _NONE


def _has_any(message: hlo_pb2.HloModuleProto) -> bool:
    """Whether a program may compute in doubles at all; most do not, and then nothing else of them is read."""
    return any(
        each.opcode == _GUARD.encode() or (each.shape.element_type in _NUMBERS and each.shape.dimensions)
        for computation in message.computations
        for each in computation.instructions
    )


def doubles_in(module: HloModule) -> Doubles:
    """The ops of a program that compute with arrays of doubles, or with the pairs that stand for them on a TPU."""
    read = _Read(module)
    ops = read.native() | _emulated(module)
    return Doubles(frozenset(ops), read.begin() if ops else "")


class _Read:
    """A program, and which of its computations hold arrays of doubles."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._fused = module.fused_names
        self._holding: dict[str, bool] = {}

    def native(self) -> set[str]:
        """Ops that read, write or hold arrays of doubles."""
        split = {*_SPLITS, _JOINS}
        return {
            each.name
            for computation in self._run()
            for each in computation
            if each.opcode not in _NO_OPS
            and each.custom_call_target not in split
            and self._computes(each, computation)
        }

    def begin(self) -> str:
        """Where doubles begin: inputs of the program, else what makes arrays of them from none."""
        entry = self._module.entry
        inputs = [each for each in entry.parameters() if _has_doubles(each.shape)]
        low, high = (_split_inputs(entry, split) for split in _SPLITS)
        # An input of which a TPU reads one array of the pair is cast at once.
        inputs = [each for each in inputs if (each.name in low) == (each.name in high)]
        if inputs:
            named = [each.op_name for each in inputs if each.op_name not in ("", _UNNAMED_INPUT)]
            return f"inputs {_named(named)}" if named else f"inputs at {_named(map(_place, inputs))}"
        made = [
            each
            for computation in self._module.computations.values()
            for each in computation
            if each.opcode not in _NO_OPS
            and _has_doubles(each.shape)
            and not any(map(_has_doubles, _operands(each, computation)))
        ]
        # A cast says best where doubles come from; a constant that is spread out may follow from one.
        casts = [each for each in made if each.opcode == "convert"]
        return _named(map(_place, casts or made))

    def _run(self) -> list[Computation]:
        return [each for name, each in self._module.computations.items() if name not in self._fused]

    def _computes(self, op: Instruction, computation: Computation) -> bool:
        shapes = [op.shape, *_operands(op, computation)]
        return any(map(_has_doubles, shapes)) or (op.opcode == "fusion" and self._holds(op.called_names()))

    def _holds(self, names: list[str]) -> bool:
        return any(self._holds_one(name) for name in names)

    def _holds_one(self, name: str) -> bool:
        if name not in self._holding:
            self._holding[name] = False  # a program that calls itself ends here
            own = self._module.computations.get(name)
            self._holding[name] = own is not None and (
                _sums_pairs(own)
                or any(
                    _has_doubles(each.shape) or (each.opcode == "fusion" and self._holds(each.called_names()))
                    for each in own
                )
            )
        return self._holding[name]


def _sums_pairs(fused: Computation) -> bool:
    """Whether a fusion sums pairs: it computes what the float32 sum loses, and looks for infinite numbers.

    What `a + b` loses is `b - ((a + b) - a)`. Code that compensates its own sums does not look for infinite numbers.
    """
    return any(each.opcode == _GUARD for each in fused) and any(_is_lost(each, fused) for each in fused)


def _is_lost(op: Instruction, fused: Computation) -> bool:
    if op.opcode != "subtract" or op.shape.count < ARRAY_FROM or len(op.operands) != 2:
        return False
    added, gained = op.operands[0], fused.instructions.get(op.operands[1])
    if gained is None or gained.opcode != "subtract" or len(gained.operands) != 2:
        return False
    total = fused.instructions.get(gained.operands[0])
    return total is not None and total.opcode == "add" and {*total.operands} == {added, gained.operands[1]}


def _emulated(module: HloModule) -> set[str]:
    """Ops that follow from both arrays of pairs, on the way to pairs of which both arrays do.

    What follows from one array of a pair alone may compute in float32, and what is joined with a constant may have.
    """
    entry = module.entry
    low, high = (_after(entry, _split_inputs(entry, split).values()) for split in _SPLITS)
    both = low & high
    ends = [
        name
        for each in entry
        if each.custom_call_target == _JOINS and _is_double(each.shape) and both.issuperset(each.operands)
        for name in each.operands
    ]
    between = _before(entry, ends) & both
    found = [each for each in entry if each.name in between]
    return {each.name for each in found if _is_op(each)} | _inside(module, found)


def _split_inputs(entry: Computation, split: str) -> dict[str, str]:
    """Arrays of doubles that are split, with the op that gives one array of the pair."""
    return {
        each.operands[0]: each.name
        for each in entry
        if each.custom_call_target == split and any(map(_has_doubles, _operands(each, entry)))
    }


def _after(entry: Computation, starts: Iterable[str]) -> set[str]:
    """Ops that read these, or what follows from them; a program lists its ops after what they read."""
    found = set(starts)
    for each in entry:
        if not found.isdisjoint(each.operands):
            found.add(each.name)
    return found


def _before(entry: Computation, ends: Iterable[str]) -> set[str]:
    """These ops, and all that they follow from."""
    left = list(ends)
    found: set[str] = set()
    while left:
        name = left.pop()
        if name in entry.instructions and name not in found:
            found.add(name)
            left += entry.instructions[name].operands
    return found


def _inside(module: HloModule, ops: list[Instruction]) -> set[str]:
    """The ops of the loops and branches among these."""
    names: set[str] = set()
    left = [name for each in ops if each.opcode != "fusion" for name in each.called_names()]
    seen: set[str] = set()
    while left:
        name = left.pop()
        own = module.computations.get(name)
        if own is None or name in seen:
            continue
        seen.add(name)
        for each in own:
            if _is_op(each):
                names.add(each.name)
            if each.opcode != "fusion":
                left += each.called_names()
    return names


def _is_op(op: Instruction) -> bool:
    return op.opcode not in _NO_OPS and op.custom_call_target not in _SPLITS


def _operands(op: Instruction, computation: Computation) -> list[Shape]:
    found = (computation.instructions.get(name) for name in op.operands)
    return [each.shape for each in found if each is not None]


def _has_doubles(shape: Shape) -> bool:
    return any(each.element_type in TYPES and each.count >= ARRAY_FROM for each in shape.leaves())


def _is_double(shape: Shape) -> bool:
    return any(each.element_type in TYPES for each in shape.leaves())


def _place(op: Instruction) -> str:
    return op.user_source or op.source or op.op_name or op.name


def _named(places: Iterable[str]) -> str:
    return listed(list(dict.fromkeys(places)), PLACES_NAMED)
