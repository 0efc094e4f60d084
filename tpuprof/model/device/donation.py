"""What of a program's results could have had the memory of an input that they replace.

A result replaces an input where it is of the input's type and dimensions and was made from it element by element:
`weight - rate * gradient`, a cache with one row written. The gradient of a weight is of the same size too, but comes
out of a matrix multiplication; the weight lives on beside it, and nothing could be donated.

Where a result writes to a part of such an input (a cache, a replay buffer), XLA copies the whole input first. That copy
takes time, and goes where the input is donated.

A single op that is called outside of any jitted function (`a * b`) is a program too, and its result is of its inputs'
type. It replaces nothing: what is around it uses its inputs again. So a program is asked whether it updates anything.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tpuprof.decode.hlo_shape import ELEMENT_TYPES, HBM, Shape
from tpuprof.model.device.accumulation import has_products

if TYPE_CHECKING:
    from tpuprof.decode import hlo_pb2

# Instructions looked at for one result: updates of real optimizers take tens.
LOOKED_AT = 2000
# Of these, each element of the result comes from the same element of every operand of its dimensions.
_BY_ELEMENT = frozenset(
    {b"abs", b"add", b"and", b"atan2", b"cbrt", b"ceil", b"clamp", b"convert", b"copy", b"copy-done", b"copy-start",
     b"divide", b"exponential", b"exponential-minus-one", b"floor", b"log", b"log-plus-one", b"logistic", b"maximum",
     b"minimum", b"multiply", b"negate", b"optimization-barrier", b"or", b"power", b"reduce-precision", b"remainder",
     b"round-nearest-afz", b"round-nearest-even", b"rsqrt", b"select", b"sign", b"sqrt", b"subtract", b"tanh", b"xor",
     b"bitcast", b"reshape"}
)  # fmt: skip
# Of these, the first operand is what is written to.
_WRITES_TO_FIRST = frozenset({b"dynamic-update-slice", b"scatter"})
# Results of two inputs of their type or more from which a program without products updates them (results): an optimizer
# makes new weights and new moments of the old ones and of gradients. One op has one result. A library's function that
# scales all moments has many, each of one input. A judgement.
UPDATES_FROM_RESULTS = 2
# Element type and dimensions.
_Type = tuple[int, tuple[int, ...]]
_CALLS = frozenset({b"fusion", b"call"})


class _At(NamedTuple):
    """An instruction inside called computations; `part` is the part of a tuple that is asked for."""

    computation: int
    instruction: int
    part: int
    caller: _At | None


class Undonated(NamedTuple):
    """What a program pays for inputs that it was not given to overwrite.

    `bytes` are of results that take memory of their own beside an input that they replace; each input counts once.
    `copies` are names of instructions that copy such an input whole, so that a result can be written to the copy.
    `updates` is whether the program's own work says that they are replaced; a single op's does not.
    """

    bytes: int
    copies: tuple[str, ...]
    updates: bool


def undonated(proto: hlo_pb2.HloProto) -> Undonated:
    """What results take beside the inputs that they replace, and the copies of those inputs."""
    module = proto.hlo_module
    program = _Program(module)
    results = _results(program)
    lost = _replaced(results)
    # Which of several equal results a donated input went to does not matter.
    donated = {each.parameter_number for each in module.input_output_alias.entries}
    donated |= {each.parameter_number for each in module.buffer_donor.entries}
    lost.subtract(_type(each.shape) for each in program.inputs() if each.parameter_number in donated)
    size = sum(_bytes(kind) * count for kind, count in lost.items() if count > 0)
    copies = dict.fromkeys(
        name for each in results for name, number in each.copies if number not in donated and size
    )
    return Undonated(size, tuple(copies), bool(size) and (_update(results) or has_products(proto)))


def _update(results: list[_Result]) -> bool:
    """Whether results are updates by how they are made: one writes to a part of an input, or several join inputs."""
    joined = sum(len(each.inputs) > 1 for each in results)
    return joined >= UPDATES_FROM_RESULTS or any(each.writes and each.inputs for each in results)


def replaced(proto: hlo_pb2.HloProto) -> int:
    """Bytes of results that replace an input, donated or not; each input counts once."""
    return sum(
        _bytes(kind) * count for kind, count in _replaced(_results(_Program(proto.hlo_module))).items()
    )


class _Result(NamedTuple):
    """A result in HBM, with the inputs of its type that it is made of, by number.

    `copies` are copies that the program itself makes of such inputs on the way: names, with the input of each.
    `writes` is whether a part of something is written to on the way.
    """

    kind: _Type
    inputs: list[int]
    copies: list[tuple[str, int]]
    writes: bool


def _results(program: _Program) -> list[_Result]:
    found = []
    for at in program.results():
        shape = program.shape(at)
        if shape.layout.memory_space == HBM:
            kind, made_of = _type(shape), program.made_of(at)
            inputs = [each.parameter_number for each in made_of.inputs if _type(each.shape) == kind]
            copies = [
                (copy.name.decode("utf-8", "replace"), copied.parameter_number)
                for copy, copied in made_of.copies
                if _type(copied.shape) == kind
            ]
            found.append(_Result(kind, inputs, copies, made_of.writes))
    return found


def _replaced(results: list[_Result]) -> Counter[_Type]:
    """Results that replace an input of their type, by type."""
    used: set[int] = set()
    replacing: Counter[_Type] = Counter()
    # A new weight is made of the old one and of its moments, a new moment of itself alone: that one chooses first.
    for each in sorted(results, key=lambda each: len(each.inputs)):
        free = next((number for number in each.inputs if number not in used), None)
        if free is not None:
            used.add(free)
            replacing[each.kind] += 1
    return replacing


class _MadeOf(NamedTuple):
    """What a value is made of element by element: inputs of the program, and its copies of whole inputs with each.

    `writes` is whether a part of what it is made of is written to.
    """

    inputs: list[hlo_pb2.HloInstructionProto]
    copies: list[tuple[hlo_pb2.HloInstructionProto, hlo_pb2.HloInstructionProto]]
    writes: bool


class _Program:
    """Follows values of a program back to its inputs."""

    def __init__(self, module: hlo_pb2.HloModuleProto) -> None:
        self._computations = {each.id: each for each in module.computations}
        self._entry = module.entry_computation_id
        self._tables: dict[int, dict[int, hlo_pb2.HloInstructionProto]] = {}

    def results(self) -> list[_At]:
        """Where each of the program's results is made."""
        entry = self._computations.get(self._entry)
        root = self._instruction(self._entry, entry.root_id) if entry is not None else None
        if root is None:
            return []
        if root.opcode == b"tuple":
            return [_At(self._entry, each, 0, None) for each in root.operand_ids]
        return [_At(self._entry, root.id, index, None) for index in range(len(root.shape.tuple_shapes) or 1)]

    def inputs(self) -> list[hlo_pb2.HloInstructionProto]:
        """The program's inputs."""
        entry = self._computations.get(self._entry)
        return (
            [each for each in entry.instructions if each.opcode == b"parameter"] if entry is not None else []
        )

    def shape(self, at: _At) -> hlo_pb2.ShapeProto:
        """The shape of a value; that of a tuple's part."""
        found = self._instruction(at.computation, at.instruction)
        shape = found.shape if found is not None else None
        if shape is not None and at.part < len(shape.tuple_shapes):
            return shape.tuple_shapes[at.part]
        from tpuprof.decode import hlo_pb2

        return shape if shape is not None else hlo_pb2.ShapeProto()

    def made_of(self, at: _At) -> _MadeOf:
        """What a value is made of element by element."""
        found, writes = _MadeOf([], [], writes=False), False
        seen: set[tuple[int, int, int]] = set()
        waiting = [at]
        while waiting and len(seen) < LOOKED_AT:
            here = waiting.pop()
            each = self._instruction(here.computation, here.instruction)
            if each is None or (here.computation, here.instruction, here.part) in seen:
                continue
            seen.add((here.computation, here.instruction, here.part))
            if self._is_input(here.computation, each):
                found.inputs.append(each)
                continue
            copied = self._copied_input(here, each)
            if copied is not None:
                found.copies.append((each, copied))
            writes |= each.opcode in _WRITES_TO_FIRST
            waiting += self._from(here, each)
        return found._replace(writes=writes)

    def _copied_input(
        self, here: _At, each: hlo_pb2.HloInstructionProto
    ) -> hlo_pb2.HloInstructionProto | None:
        """The whole input that an instruction copies, None where it does something else.

        A copy into another layout is none: it would be made of a donated input too.
        """
        if each.opcode != b"copy" or here.computation != self._entry or not each.operand_ids:
            return None
        copied = self._instruction(self._entry, each.operand_ids[0])
        if copied is None or not self._is_input(self._entry, copied) or _layout(copied) != _layout(each):
            return None
        return copied

    def _is_input(self, computation: int, each: hlo_pb2.HloInstructionProto) -> bool:
        return each.opcode == b"parameter" and computation == self._entry

    def _from(self, here: _At, each: hlo_pb2.HloInstructionProto) -> list[_At]:
        """The values that an instruction's result is made of element by element."""
        if each.opcode == b"parameter":
            return _operand(here.caller, self._called_by(here), each.parameter_number)
        if each.opcode in _CALLS:
            return self._inside(here, each)
        index, own = 0, list(each.operand_ids)
        if each.opcode == b"get-tuple-element":
            index = each.tuple_index
        elif each.opcode in (b"tuple", b"while"):
            # A loop's result has the memory of what it begins with.
            own = own if each.opcode == b"tuple" else self._begun_with(here, each)
            own = own[here.part : here.part + 1]
        elif each.opcode in _WRITES_TO_FIRST:
            own = own[:1]
        elif each.opcode not in _BY_ELEMENT:
            own = []
        return [_At(here.computation, operand, index, here.caller) for operand in own]

    def _inside(self, here: _At, each: hlo_pb2.HloInstructionProto) -> list[_At]:
        for called in each.called_computation_ids[:1]:
            computation = self._computations.get(called)
            root = self._instruction(called, computation.root_id) if computation is not None else None
            if root is None:
                continue
            if root.opcode != b"tuple":
                return [_At(called, root.id, here.part, here)]
            if here.part < len(root.operand_ids):
                return [_At(called, root.operand_ids[here.part], 0, here)]
        return []

    def _begun_with(self, here: _At, loop: hlo_pb2.HloInstructionProto) -> list[int]:
        start = self._instruction(here.computation, loop.operand_ids[0]) if loop.operand_ids else None
        return list(start.operand_ids) if start is not None and start.opcode == b"tuple" else []

    def _called_by(self, here: _At) -> hlo_pb2.HloInstructionProto | None:
        return self._instruction(here.caller.computation, here.caller.instruction) if here.caller else None

    def _instruction(self, computation: int, number: int) -> hlo_pb2.HloInstructionProto | None:
        table = self._tables.get(computation)
        if table is None:
            found = self._computations.get(computation)
            table = {each.id: each for each in found.instructions} if found is not None else {}
            self._tables[computation] = table
        return table.get(number)


def _operand(caller: _At | None, calling: hlo_pb2.HloInstructionProto | None, number: int) -> list[_At]:
    if caller is None or calling is None or number >= len(calling.operand_ids):
        return []
    return [_At(caller.computation, calling.operand_ids[number], 0, caller.caller)]


def _layout(each: hlo_pb2.HloInstructionProto) -> tuple[int, ...]:
    return tuple(each.shape.layout.minor_to_major)


def _type(shape: hlo_pb2.ShapeProto) -> _Type:
    return shape.element_type, tuple(shape.dimensions)


def _bytes(kind: _Type) -> int:
    element, dimensions = kind
    return Shape(ELEMENT_TYPES.get(element, "opaque"), dimensions).bytes
