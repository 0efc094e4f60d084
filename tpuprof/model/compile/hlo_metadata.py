"""What the HLO programs embedded in a trace say of their ops: the framework's scope and the source line.

The profiler stores each program it saw in `/host:metadata`, one event metadata a program, named
`graph(program_id)`, with the serialized HloProto as a stat.
"""

from __future__ import annotations

import re
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING

from tpuprof.decode.columns import StatKind, Trace
from tpuprof.decode.hlo_proto import frame_ids, place_of, user_location
from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.model.device.op_kind import CUSTOM_CALL, collective_kind
from tpuprof.model.steps.training_calls import function_of_program
from tpuprof.model.timeline import METADATA_PLANE
from tpuprof.own_events import is_users_file
from tpuprof.records import record

if TYPE_CHECKING:
    from tpuprof.decode import hlo_pb2

# How JAX calls the part of a backward pass that computes a block of `jax.checkpoint` again.
RECOMPUTED = "rematted_computation"
# torch_xla numbers each entry into a scope: `attention.3` is the third time the scope `attention` was entered.
_ENTRY_NUMBER = re.compile(r"\.\d+$")
_WRAPPERS = re.compile(
    r"^(jit|pjit|jvp|transpose|vmap|remat|checkpoint|shard_map|custom_vjp)\(.*\)$|^(while|body|cond)$"
)


@record(frozen=True)
class HloMetadata:
    """Scope and source line by (program, op), for ops whose program states either.

    `work` says what ops do whose name need not say it: the opcode of collectives, the target of custom calls. JAX
    names its ops by its own primitives (`psum.3`). A program goes by `graph(program_id)`: several graphs share a name.
    """

    by_op: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    work: dict[tuple[str, str], str] = field(default_factory=dict)

    def describe(self, program: str, op: str) -> tuple[str, str]:
        """(scope path, `file:line`) of an op, empty strings where unknown."""
        return self.by_op.get((program, op), ("", ""))

    def work_of(self, program: str, op: str) -> str:
        """What the op does, as a category of ops; empty where its name says it."""
        return self.work.get((program, op), "")


def read_hlo_metadata(trace: Trace) -> HloMetadata:
    """Read every HLO program embedded in a trace; damaged ones are skipped."""
    by_op: dict[tuple[str, str], tuple[str, str]] = {}
    work: dict[tuple[str, str], str] = {}
    for label, data in hlo_protos(trace):
        places, does = _instructions(label, data)
        by_op.update(places)
        work.update(does)
    return HloMetadata(by_op, work)


def source_lines(label: str, data: bytes) -> list[str]:
    """`file:line` of each op of a program that names one."""
    return [source for _, source in _instructions(label, data)[0].values() if source]


# A part of a scope, with the slashes beyond the one that separates it.
_PART = re.compile(r"(?:^|(?<=/))/+[^/]+|[^/]+")


def hlo_protos(trace: Trace) -> list[tuple[str, bytes]]:
    """(`graph(program_id)`, serialized HloProto) of each program the trace embeds."""
    plane = trace.plane(METADATA_PLANE)
    if plane is None:
        return []
    stats = plane.events.stats
    return [
        (plane.events.names[int(stats.row[index])], stats.raw(index))
        for index in range(len(stats))
        if stats.kind[index] == StatKind.BYTES
    ]


def scope_names(scope: str) -> list[str]:
    """The scopes an op was traced under, outermost first, without entry numbers and without the op itself.

    `attention.3/softmax.1/aten__softmax` gives attention and softmax; of JAX paths the `jit(...)` wrappers
    are left out. What begins with a slash keeps it, so that `http://host` and `/data/x` stay what they are.
    """
    return list(names_in(around(scope)))


def scope_label(scope: str) -> str:
    """The same as one readable path; empty where an op has none."""
    return _label_of(around(scope))


def around(scope: str) -> str:
    """An op's scope without the op itself."""
    return scope.rstrip(":").rpartition("/")[0]


# What is around them is the same for many ops, and several tables ask for it.
@lru_cache(maxsize=65_536)
def names_in(path: str) -> tuple[str, ...]:
    """The scopes of what `around` gives."""
    parts = _PART.findall(path)
    return tuple(_ENTRY_NUMBER.sub("", part) for part in parts if not _WRAPPERS.match(part))


@lru_cache(maxsize=65_536)
def _label_of(path: str) -> str:
    return "/".join(names_in(path))


@lru_cache(maxsize=PROGRAMS_KEPT)
def _instructions(
    label: str, data: bytes
) -> tuple[dict[tuple[str, str], tuple[str, str]], dict[tuple[str, str], str]]:
    from google.protobuf.message import DecodeError

    from tpuprof.decode import hlo_pb2

    proto = hlo_pb2.HloProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        return {}, {}
    found, work = {}, {}
    places = _Places(proto.hlo_module)
    for computation in proto.hlo_module.computations:
        for instruction in computation.instructions:
            meta = instruction.metadata
            if meta.op_name or meta.source_file:
                found[label, _text(instruction.name)] = (_text(meta.op_name), places.source_of(instruction))
            code = _text(instruction.opcode)
            if code == CUSTOM_CALL:
                work[label, _text(instruction.name)] = f"{code} {_text(instruction.custom_call_target)}"
            elif collective_kind(code):
                work[label, _text(instruction.name)] = code
    return found, work


class _Places:
    """The lines of a program's ops: where a library made an op, the line of the program that called it."""

    def __init__(self, module: hlo_pb2.HloModuleProto) -> None:
        self._frames = module.stack_frame_index
        self._callers = _callers(module)
        # By what an op states: many ops state the same.
        self._known: dict[tuple[bytes, int, int], str] = {}

    def source_of(self, instruction: hlo_pb2.HloInstructionProto) -> str:
        """`file:line` of an op; empty where its program states none."""
        meta = instruction.metadata
        stated = meta.source_file, meta.source_line, meta.stack_frame_id
        if stated not in self._known:
            self._known[stated] = self._read(instruction)
        return self._known[stated]

    def _read(self, instruction: hlo_pb2.HloInstructionProto) -> str:
        meta = instruction.metadata
        if not meta.source_file or meta.stack_frame_id in self._callers:
            return ""
        file, line = place_of(instruction, self._frames)
        own = ""
        if not is_users_file(file):
            # Frames that only lead to the program's function are no line of its ops.
            own = user_location(self._frames, meta.stack_frame_id, without=self._callers)
        return own or (f"{file}:{line}" if file else "")


def _callers(module: hlo_pb2.HloModuleProto) -> set[int]:
    """The stack frames that only lead to the program's function: the loop that calls the jitted step, say.

    JAX gives ops in `shard_map`, and all that a gradient transposes there, that line for their own: it is not where
    they are.
    """
    frames, program = module.stack_frame_index, _text(module.name)
    function = function_of_program(program)
    if function == program:
        return set()
    names = {at for at, name in enumerate(frames.function_names, 1) if _last_part(name) == function}
    places = _users_first(module, names)
    found: set[int] = set()
    for number, frame in enumerate(frames.stack_frames, 1):
        if frame.file_location_id in places:
            found.update(frame_ids(frames, number)[1:])
    return found


def _users_first(module: hlo_pb2.HloModuleProto, names: set[int]) -> set[int]:
    """The places of functions with these names: the program's own, where it has any.

    A library's may have the same name, and be called inside: optax calls its transformations by `update`.
    """
    frames = module.stack_frame_index
    found = {at for at, place in enumerate(frames.file_locations, 1) if place.function_name_id in names}
    files = {at for at, file in enumerate(frames.file_names, 1) if is_users_file(_text(file))}
    return {at for at in found if frames.file_locations[at - 1].file_name_id in files} or found


def _last_part(name: bytes) -> str:
    """A function's name without the classes and functions that it is in."""
    return _text(name).rpartition(".")[2]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
