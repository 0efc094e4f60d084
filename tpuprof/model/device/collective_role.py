"""What a collective is for: gathering a parameter, scattering or reducing a gradient; and of which layer.

A parameter's gather is shown by where its value comes from: through copies, converts and slices from one input of
the program and from nothing else. A gradient's reduction is shown by where its value goes: into the update of an
input of its own size that the program gives back. So a gather or reduction of activations gets no parameter's name,
although the ops around it read parameters too. Names come from `parameter_names` (a preflight knows them), else from
the op's own scopes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from tpuprof.decode.hlo import Computation, HloModule, Instruction
from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.errors import TpuprofError
from tpuprof.model.compile.hlo_metadata import scope_label
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.op_kind import OpKind, collective_kind, opcode
from tpuprof.records import record

PARAMETER_GATHER = "parameter_gather"
GRADIENT_SCATTER = "gradient_scatter"
GRADIENT_REDUCE = "gradient_reduce"
FORWARD = "forward"
BACKWARD = "backward"
# How many instructions a value is followed through: real chains of copies, slices and converts are shorter.
MAX_HOPS = 24
_THROUGH = frozenset(
    {"copy", "bitcast", "copy-start", "copy-done", "convert", "reshape", "get-tuple-element", "slice", "slice-start",
     "slice-done", "transpose", "dynamic-slice", "all-gather", "all-gather-start", "all-gather-done", "fusion",
     "async-start", "async-done", "custom-call", "optimization-barrier", "tuple", "reduce-scatter", "all-reduce"}
)  # fmt: skip
# What has no float value of its own: sizes, positions and zeros beside a parameter's data.
_NO_DATA = frozenset({"constant", "iota", "partition-id", "replica-id", "after-all"})
# A custom call that puts slices of one value together again: the compiler reads a large one into VMEM in pieces.
_REJOINS = "ConcatBitcast"
# What hands one value on, as far as the search for the input beside a gradient goes.
_HANDS_ON = frozenset(
    {"copy", "bitcast", "copy-start", "copy-done", "convert", "reshape", "slice", "slice-start", "slice-done"}
)
# In a fusion: what makes a new value of several, or of many elements one.
_COMPUTES = frozenset({"dot", "convolution", "reduce", "reduce-window", "scatter", "gather", "sort", "rng"})
_STATE_OF = re.compile(r"^\w+ of ")
_LAYER = re.compile(r"(?:^|[./])((?:[A-Za-z_]\w*\.)*?(?:layers?|blocks?|h|encoder|decoder)\.\d+)(?=[./@]|$)")
_ANY_NUMBERED = re.compile(r"((?:[A-Za-z_]\w*\.)+\d+)(?=[./@]|$)")
_BACKWARD_WORDS = ("@backward", "aot_backward", "transpose(jvp", "backward")
# How scopes of JAX begin, and what those have that are in a forward pass whose derivative is taken.
_OF_JAX, _JAX_FORWARD = ("jit(", "pjit(", "pmap("), "jvp("


@record(frozen=True)
class Role:
    """What a collective does: `role` (empty where unknown), the parameter, its layer, forward or backward."""

    role: str = ""
    parameter: str = ""
    layer: str = ""
    direction: str = ""


class Roles:
    """Finds the role of collectives of one program. `parameter_names` go by the number of the input, may be empty."""

    def __init__(self, module: HloModule, parameter_names: Sequence[str] = ()) -> None:
        self._module = module
        self._names = parameter_names
        self._users: dict[str, dict[str, list[Instruction]]] = {}
        # Of two instructions of one name the first counts.
        self._computation_of: dict[str, Computation] = {}
        for computation in module.computations.values():
            for name in computation.instructions:
                self._computation_of.setdefault(name, computation)

    def of(self, name: str, kind: str, scope: str) -> Role:
        """The role of the collective that instruction `name` is, starts or contains."""
        found = self._find(name)
        parameter, role = "", ""
        if found is not None:
            computation, instruction = found
            if kind == "all-gather":
                parameter = self._source(computation, instruction)
                role = PARAMETER_GATHER if parameter else ""
            elif kind in ("reduce-scatter", "all-reduce"):
                parameter = self._destination(computation, instruction)
                role = (
                    (GRADIENT_SCATTER if kind == "reduce-scatter" else GRADIENT_REDUCE) if parameter else ""
                )
        place = instruction.op_name if found is not None and not scope else scope
        layer = layer_of(parameter) or layer_of(scope_label(place))
        return Role(role, parameter, layer, direction_of(place, role))

    def _find(self, name: str) -> tuple[Computation, Instruction] | None:
        computation = self._computation_of.get(name)
        return (computation, computation.instructions[name]) if computation is not None else None

    def _source(self, computation: Computation, instruction: Instruction) -> str:
        """Name of the one float input of the program that a value is made of; empty where anything else is in it."""
        if computation.name != self._module.entry_name:
            return ""
        seen: set[str] = set()
        waiting, inputs = [(name, 0) for name in instruction.operands], set()
        while waiting:
            name, hops = waiting.pop()
            each = computation.instructions.get(name)
            if each is None or name in seen:
                continue
            if hops > MAX_HOPS:
                return ""
            seen.add(name)
            if each.opcode == "parameter" and each.shape.dimensions and "f" in each.shape.element_type:
                inputs.add(self._label(each))
            elif each.shape.count <= 1 or each.opcode in _NO_DATA or each.opcode == "parameter":
                continue
            elif each.opcode not in _THROUGH or self._computes(each):
                return ""
            else:
                waiting += [(operand, hops + 1) for operand in each.operands]
        return inputs.pop() if len(inputs) == 1 else ""

    def _computes(self, instruction: Instruction) -> bool:
        """Whether a fusion or custom call makes another value than a copy, slice or cast of what it takes."""
        if instruction.opcode == "custom-call":
            return len(instruction.operands) > 1 and instruction.custom_call_target != _REJOINS
        if instruction.opcode != "fusion":
            return False
        inner = [self._module.computations.get(name) for name in instruction.called_names()]
        return any(part.opcode in _COMPUTES for each in inner if each is not None for part in each)

    def _destination(self, computation: Computation, instruction: Instruction) -> str:
        """Name of the input whose update uses a value: one of its size that the first op to use it reads beside it."""
        if computation.name != self._module.entry_name:
            return ""
        users = self._users_of(computation)
        seen: set[str] = set()
        waiting = [(instruction.name, 0)]
        while waiting:
            name, hops = waiting.pop(0)
            if name in seen or hops > MAX_HOPS:
                continue
            seen.add(name)
            for user in users.get(name, ()):
                size = computation.instructions[name].shape.count
                beside = [
                    self._source_of_operand(computation, other) for other in user.operands if other != name
                ]
                named = [
                    self._label(each) for each in beside if each is not None and self._updated(each, size)
                ]
                if named:
                    return min(named, key=lambda label: (" of " in label, label))
                if user.opcode in ("dot", "convolution") or self._computes(user):
                    # What uses the result no longer uses the value.
                    continue
                waiting.append((user.name, hops + 1))
        return ""

    def _updated(self, parameter: Instruction, size: int) -> bool:
        """Whether an input has so many elements and is given back, where the program says which are."""
        aliases = self._module.aliases
        return parameter.shape.count == size and (not aliases or parameter.parameter_number in aliases)

    def _source_of_operand(self, computation: Computation, name: str) -> Instruction | None:
        each = computation.instructions.get(name)
        for _ in range(MAX_HOPS):
            if each is None:
                return None
            if each.opcode == "parameter":
                return each if each.shape.dimensions else None
            rejoins = each.opcode == "custom-call" and each.custom_call_target == _REJOINS
            if each.opcode not in _HANDS_ON and not rejoins:
                return None
            each = computation.instructions.get(each.operands[0]) if each.operands else None
        return None

    def _users_of(self, computation: Computation) -> dict[str, list[Instruction]]:
        if computation.name not in self._users:
            table: dict[str, list[Instruction]] = {}
            for each in computation:
                for operand in each.operands:
                    table.setdefault(operand, []).append(each)
            self._users[computation.name] = table
        return self._users[computation.name]

    def _label(self, parameter: Instruction) -> str:
        number = parameter.parameter_number or 0
        if number < len(self._names) and self._names[number]:
            return self._names[number]
        return f"input {number}"


def collective_roles(
    devices: Iterable[DeviceActivity], protos: Mapping[str, bytes], parameter_names: Sequence[str] = ()
) -> dict[tuple[str, str], Role]:
    """The role of each collective by (program, op), for programs whose serialized HloProto is in `protos`."""
    found: dict[tuple[str, str], Role] = {}
    programs: dict[str, Roles | None] = {}
    for device in devices:
        names = device.ops
        rows = np.flatnonzero(names.kind == OpKind.COLLECTIVE).tolist()
        kinds = names.by_line(_kind) if rows else []
        for row, line in zip(rows, names.lines.of[rows].tolist(), strict=True):
            key = (names.program[row], names.name[row])
            if key in found:
                continue
            if names.program[row] not in programs:
                programs[names.program[row]] = _read_program(
                    protos.get(names.program[row]), tuple(parameter_names)
                )
            program = programs[names.program[row]]
            scope = names.scope[row]
            if program is None:
                found[key] = Role(layer=layer_of(scope_label(scope)), direction=direction_of(scope, ""))
                continue
            found[key] = program.of(names.name[row], kinds[line], scope)
    return found


def _kind(long_name: str, name: str, category: str) -> str:
    return collective_kind(category) or collective_kind(opcode(long_name, name)) or ""


@lru_cache(maxsize=PROGRAMS_KEPT)
def _read_program(data: bytes | None, parameter_names: tuple[str, ...]) -> Roles | None:
    from tpuprof.decode.hlo_proto import read_hlo_proto

    if data is None:
        return None
    try:
        return Roles(read_hlo_proto(data), parameter_names)
    except TpuprofError:
        return None


@lru_cache(maxsize=16_384)  # ops of a layer share their scope
def layer_of(text: str) -> str:
    """The layer a parameter's name or an op's scope belongs to: `layers.3` of `layers.3.up.weight`."""
    text = _STATE_OF.sub("", text)
    found = _LAYER.findall(text) or _ANY_NUMBERED.findall(text)
    return found[-1] if found else ""


def direction_of(scope: str, role: str) -> str:
    """Forward or backward, from the op's scope, else from what it does; empty where neither tells."""
    if any(word in scope for word in _BACKWARD_WORDS) or role in (GRADIENT_SCATTER, GRADIENT_REDUCE):
        return BACKWARD
    if scope.startswith(_OF_JAX):
        # Metrics and updates are reduced in neither pass.
        return FORWARD if _JAX_FORWARD in scope else ""
    return FORWARD if "/" in scope else ""
