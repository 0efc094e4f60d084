"""Reads serialized HLO modules into the same objects as the text parser."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple
from zlib import crc32

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from tpuprof.decode import hlo_pb2
from tpuprof.decode.hlo import Computation, HloModule, Instruction
from tpuprof.decode.hlo_shape import ELEMENT_TYPES, Shape
from tpuprof.errors import Code, TpuprofError
from tpuprof.own_events import INSTRUMENTATION, is_users_file

_SHARDING_TYPES = {0: "{replicated}", 1: "{maximal}", 4: "{manual}"}
_BODY_CONDITION = ("body", "condition")
# Ops that have a window or a padding, and the numbers of those fields in XLA's own hlo.proto: window, padding_config.
_WITH_SETTINGS = (b"pad", b"reduce-window", b"convolution", b"select-and-scatter")
_SETTINGS = (15, 21)


def read_hlo_proto(data: bytes) -> HloModule:
    """Read a serialized HloModuleProto, or an HloProto that wraps one.

    Raises `TpuprofError` (CORRUPT) where the bytes are neither.
    """
    return from_proto(parse_module_proto(data))


def parse_module_proto(data: bytes) -> hlo_pb2.HloModuleProto:
    """The protobuf message of a serialized HloModuleProto or HloProto."""
    # Both are tried: a wrapped module also parses as a bare one, with its buffer assignment as computations.
    try:
        module = hlo_pb2.HloProto.FromString(data).hlo_module
        if module.computations:
            return module
    except DecodeError:
        pass
    try:
        module = hlo_pb2.HloModuleProto.FromString(data)
    except DecodeError as error:
        raise TpuprofError(Code.CORRUPT, f"This is not a serialized HLO module ({error}).") from error
    if not module.computations:
        raise TpuprofError(Code.CORRUPT, "This serialized HLO module holds no computation.")
    return module


def split_program(data: bytes) -> tuple[hlo_pb2.HloModuleProto, int] | None:
    """A program that is split over several devices, and over how many; None of any other one, and of damaged bytes."""
    try:
        message = parse_module_proto(data)
    except TpuprofError:
        return None
    assigned = message.device_assignment
    if assigned.computation_count < 2 or assigned.replica_count > 1:
        return None
    return message, assigned.computation_count


def from_proto(proto: hlo_pb2.HloModuleProto) -> HloModule:
    """Turn a parsed module into objects; instructions in schedule order where it has a schedule."""
    return _module(proto, proto.computations)


def entry_of(proto: hlo_pb2.HloModuleProto) -> HloModule:
    """The same with the instructions of its entry computation alone."""
    name = _text(proto.entry_computation_name)
    return _module(
        proto,
        [
            each
            for each in proto.computations
            if each.id == proto.entry_computation_id or _text(each.name) == name
        ],
    )


def _module(proto: hlo_pb2.HloModuleProto, computations: Iterable[hlo_pb2.HloComputationProto]) -> HloModule:
    names = {each.id: _text(each.name) for each in proto.computations}
    module = HloModule(_text(proto.name), names.get(proto.entry_computation_id, ""), {})
    module.entry_name = module.entry_name or _text(proto.entry_computation_name)
    module.is_scheduled = bool(proto.schedule.sequences)
    for entry in proto.input_output_alias.entries:
        module.aliases[entry.parameter_number] = (
            entry.output_shape_index[0] if entry.output_shape_index else 0
        )
    for each in computations:
        computation = _computation(each, names, _scheduled(proto, each), proto.stack_frame_index)
        module.computations[computation.name] = computation
    return module


def source_location(frames: hlo_pb2.StackFrameIndexProto, frame_id: int) -> tuple[str, int]:
    """File and line of a stack frame (ids count from 1), ("", 0) where the table has none."""
    if not 0 < frame_id <= len(frames.stack_frames):
        return "", 0
    place = frames.stack_frames[frame_id - 1].file_location_id
    if not 0 < place <= len(frames.file_locations):
        return "", 0
    location = frames.file_locations[place - 1]
    if not 0 < location.file_name_id <= len(frames.file_names):
        return "", location.line
    return _text(frames.file_names[location.file_name_id - 1]), location.line


def user_location(frames: hlo_pb2.StackFrameIndexProto, frame_id: int, without: Collection[int] = ()) -> str:
    """`file:line` of the innermost frame of a stack that is not a library's; empty where there is none.

    Frames with the ids `without` are passed over.
    """
    for each in frame_ids(frames, frame_id):
        file, line = source_location(frames, each)
        if is_users_file(file) and each not in without:
            return f"{file}:{line}"
    return ""


def frames_of(frames: hlo_pb2.StackFrameIndexProto, frame_id: int) -> tuple[tuple[str, int], ...]:
    """File and line of each frame of a stack, the innermost first; empty where an instruction has no stack.

    Tpuprof's own frames are left out: a program that was traced while calls of torch went through it, and one that was
    not, have the same stacks.
    """
    places = (source_location(frames, each) for each in frame_ids(frames, frame_id))
    return tuple(place for place in places if not _is_own(place[0]))


def frame_ids(frames: hlo_pb2.StackFrameIndexProto, frame_id: int) -> list[int]:
    """The frames of a stack, the innermost first."""
    seen: list[int] = []
    while 0 < frame_id <= len(frames.stack_frames) and frame_id not in seen:
        seen.append(frame_id)
        frame_id = frames.stack_frames[frame_id - 1].parent_frame_id
    return seen


def _scheduled(
    proto: hlo_pb2.HloModuleProto, computation: hlo_pb2.HloComputationProto
) -> list[hlo_pb2.HloInstructionProto]:
    order = list(computation.instructions)
    if computation.id in proto.schedule.sequences:
        by_id = {each.id: each for each in order}
        sequence = proto.schedule.sequences[computation.id].instruction_ids
        order = [by_id[key] for key in sequence if key in by_id]
    return order


def _computation(
    proto: hlo_pb2.HloComputationProto,
    names: dict[int, str],
    order: list[hlo_pb2.HloInstructionProto],
    frames: hlo_pb2.StackFrameIndexProto,
) -> Computation:
    by_id = {each.id: _text(each.name) for each in proto.instructions}
    computation = Computation(_text(proto.name))
    for each in order:
        instruction = _Read(_Source(each, by_id, names, frames))
        instruction.is_root = each.id == proto.root_id
        computation.instructions[instruction.name] = instruction
    return computation


class _Source(NamedTuple):
    """What an instruction is read from: its message, names of its neighbours and of computations, and stack frames."""

    proto: hlo_pb2.HloInstructionProto
    by_id: dict[int, str]
    names: dict[int, str]
    frames: hlo_pb2.StackFrameIndexProto

    @property
    def opcode(self) -> str:
        return _text(self.proto.opcode)

    @property
    def place(self) -> tuple[str, int]:
        """File and line that the program says it came from."""
        return place_of(self.proto, self.frames)


# How each field that not every reader asks for is read.
_FIELDS: dict[str, Callable[[_Source], Any]] = {
    "shape": lambda of: shape_of(of.proto.shape),
    "operands": lambda of: [of.by_id.get(key, "") for key in of.proto.operand_ids],
    "called": lambda of: _called(
        of.opcode, [of.names.get(key, "") for key in of.proto.called_computation_ids]
    ),
    "attributes": lambda of: _proto_attributes(of.proto),
    "op_name": lambda of: _text(of.proto.metadata.op_name),
    "source_file": lambda of: of.place[0],
    "source_line": lambda of: of.place[1],
    "user_source": lambda of: user_location(of.frames, of.proto.metadata.stack_frame_id),
    "backend_config": lambda of: _text(of.proto.backend_config),
    "parameter_number": lambda of: of.proto.parameter_number if of.opcode == "parameter" else None,
    "literal": lambda of: _literal(of.proto.literal) if of.opcode == "constant" else None,
}


class _Later:
    """A field that is read when it is first asked for, and then kept in its object."""

    def __init__(self, name: str) -> None:
        self._name, self._read = name, _FIELDS[name]

    def __get__(self, instruction: Any, owner: Any = None) -> Any:
        if instruction is None:
            return self
        value = instruction.__dict__[self._name] = self._read(instruction.source_of)
        return value


class _Read(Instruction):
    """An instruction whose fields are read from its message when they are asked for: most never are."""

    def __init__(self, source: _Source) -> None:
        self.name, self.opcode, self.source_of = source.by_id[source.proto.id], source.opcode, source


for _name in _FIELDS:
    setattr(_Read, _name, _Later(_name))


def place_of(proto: hlo_pb2.HloInstructionProto, frames: hlo_pb2.StackFrameIndexProto) -> tuple[str, int]:
    """File and line that the program says an instruction came from, ("", 0) where it does not.

    While a capture looks for ops that fall back, each call of torch goes through tpuprof: the line is its caller's.
    """
    found = proto.metadata
    if found.stack_frame_id and not found.source_file:
        return source_location(frames, found.stack_frame_id)
    file = _text(found.source_file)
    if not _is_own(file):
        return file, found.source_line
    return next(iter(frames_of(frames, found.stack_frame_id)), ("", 0))


def _is_own(file: str) -> bool:
    return any(part in file for part in INSTRUMENTATION)


def number_of(proto: hlo_pb2.HloInstructionProto) -> str:
    """A number that is part of the program: a constant's value, or the bounds of a slice; else empty."""
    if proto.opcode == b"slice":
        return _bounds(proto)
    return _literal(proto.literal) or "" if proto.opcode == b"constant" else ""


def _literal(proto: hlo_pb2.LiteralProto) -> str | None:
    """The value of a constant of one element, None for larger ones and for types that are not read."""
    numbers = [*proto.s32s, *proto.s64s, *proto.u32s, *proto.u64s, *proto.preds]
    if len(numbers) == 1:
        return str(numbers[0])
    if len(proto.f32s) == 1:
        return f"{proto.f32s[0]:.7g}"
    if len(proto.f64s) == 1:
        return f"{proto.f64s[0]:.15g}"
    if len(proto.bf16s) == 2:
        return f"{struct.unpack('<f', bytes(2) + proto.bf16s)[0]:.3g}"
    if len(proto.f16s) == 2:
        return f"{struct.unpack('<e', proto.f16s)[0]:.4g}"
    return None


def _called(opcode: str, called: list[str]) -> dict[str, list[str]]:
    if not called:
        return {}
    if opcode == "while" and len(called) == 2:
        return {key: [name] for key, name in zip(_BODY_CONDITION, called, strict=True)}
    if opcode == "conditional":
        return {"branch_computations": called}
    return {"calls" if opcode in ("fusion", "async-start") else "to_apply": called}


def _proto_attributes(proto: hlo_pb2.HloInstructionProto) -> dict[str, str]:
    found: dict[str, str] = {}
    if proto.custom_call_target:
        found["custom_call_target"] = _text(proto.custom_call_target)
    if proto.comparison_direction:
        found["direction"] = _text(proto.comparison_direction)
    if proto.opcode == b"get-tuple-element":
        found["index"] = str(proto.tuple_index)
    if proto.opcode == b"dot":
        axes = proto.dot_dimension_numbers.lhs_contracting_dimensions
        found["lhs_contracting_dims"] = "{" + ",".join(map(str, axes)) + "}"
    if proto.slice_dimensions:
        found["slice"] = _bounds(proto)
    found |= _checksums(proto)
    if proto.HasField("sharding"):
        found["sharding"] = _sharding(proto.sharding)
    groups = proto.collective_device_list.replica_groups or proto.replica_groups
    iota = proto.collective_device_list.iota_replica_group_list
    if groups:
        found["replica_groups"] = (
            "{" + ",".join("{" + ",".join(map(str, g.replica_ids)) + "}" for g in groups) + "}"
        )
    elif iota.num_replica_groups:
        found["replica_groups"] = f"[{iota.num_replica_groups},{iota.num_devices_per_group}]"
    return found


def _bounds(proto: hlo_pb2.HloInstructionProto) -> str:
    bounds = [f"[{each.start}:{each.limit}:{each.stride}]" for each in proto.slice_dimensions]
    return "{" + ",".join(bounds) + "}" if bounds else ""


def _checksums(proto: hlo_pb2.HloInstructionProto) -> dict[str, str]:
    """Checksums of what is only compared: arrays of constants, and windows and paddings."""
    if proto.opcode == b"constant" and proto.HasField("literal") and _literal(proto.literal) is None:
        return {"value": f"{crc32(proto.literal.SerializeToString(deterministic=True)):08x}"}
    return {"setting": _setting(proto)} if proto.opcode in _WITH_SETTINGS else {}


def _setting(proto: hlo_pb2.HloInstructionProto) -> str:
    """A checksum of an op's window and padding, empty where it has neither: fields that our hlo.proto leaves out."""
    unknown = UnknownFieldSet(proto)
    fields = (unknown[row] for row in range(len(unknown)))
    found = [each for each in fields if each.field_number in _SETTINGS]
    text = b";".join(sorted(each.data for each in found if isinstance(each.data, bytes)))
    return f"{crc32(text):08x}" if text else ""


def _sharding(proto: hlo_pb2.OpSharding) -> str:
    """A sharding as HLO text writes it, without the order of devices: `{devices=[4,1]}`, `{replicated}`."""
    if proto.tuple_shardings:
        return "{" + ", ".join(map(_sharding, proto.tuple_shardings)) + "}"
    if not proto.tile_assignment_dimensions:
        return _SHARDING_TYPES.get(proto.type, "{unknown}")
    tiles = ",".join(map(str, proto.tile_assignment_dimensions))
    return f"{{devices=[{tiles}]{' last_tile_dim_replicate' if proto.replicate_on_last_tile_dim else ''}}}"


def shape_of(proto: hlo_pb2.ShapeProto) -> Shape:
    """A shape from its proto; element types this module does not know read as `opaque`."""
    element = ELEMENT_TYPES.get(proto.element_type, "opaque")
    if element == "tuple":
        return Shape("tuple", elements=tuple(shape_of(each) for each in proto.tuple_shapes))
    layout = proto.layout
    tiles = tuple(tuple(max(size, 1) for size in tile.dimensions) for tile in layout.tiles)
    return Shape(element, tuple(proto.dimensions), tuple(layout.minor_to_major), tiles, layout.memory_space)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
