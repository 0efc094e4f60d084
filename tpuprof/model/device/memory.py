"""HBM that a program takes on one device, and its largest buffers, from the compiler's buffer assignment.

The profiler embeds each program's buffer assignment beside its HLO (`/host:metadata`). XLA reserves each
allocation for the whole execution, so a program's HBM is the sum of its allocations in memory space 0: inputs,
results that reuse no input, constants, and one arena for temporaries, whose size is its own peak.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from tpuprof.chips import chip_of
from tpuprof.decode.hlo_shape import HBM, HOST_MEMORY
from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.model.device.accumulation import batches_in_one_program
from tpuprof.model.device.donation import undonated
from tpuprof.records import record

if TYPE_CHECKING:
    from tpuprof.decode import hlo_pb2

# Buffers named; on real programs the first dozen hold most of the peak.
LARGEST = 20
# Share of the steps' device time from which a program is the step itself, so that its result is what the next step is
# given (share): a simulation's `state = step(state)` multiplies no matrices. A judgement.
IS_THE_STEP_FROM_SHARE = 0.5
# Moments kept of a program's course: what a chart on a wide screen can tell apart. Real programs have thousands.
MOMENTS = 240
NO_PROGRAMS = "the capture embeds no HLO program (`/host:metadata` is missing)"
NO_ASSIGNMENT = "the programs in the capture carry no buffer assignment"


@record(frozen=True)
class HeldBuffer:
    """One buffer that is alive at the peak: bytes, `kind` argument, output, constant or temporary."""

    name: str
    kind: str
    bytes: int
    shape: str
    source: str
    scope: str


@record(frozen=True)
class Moment:
    """HBM in use (bytes) once the program has come to `op`; `order` counts the compiler's allocations and frees."""

    order: int
    op: str
    bytes: int


@record(frozen=True)
class DeviceMemory:
    """HBM of one device in bytes, for the program that takes most; `unavailable` says why where `peak` is None.

    `capacity` is what the compiler lets a program use of this chip, None where the chip is not known. `holes` is
    what of the temporaries' arena no live buffer fills at its peak: fragmentation. `course` is what is in use over the
    program, the highest moment of each of `MOMENTS` stretches of it. `undonated` is what results take beside
    inputs that they replace, whose memory they could have had; nothing of a program that updates none, such as one op
    that is called outside of a jitted function. `batches` is how many batches' gradients it adds up.
    `input_copies` are the ops that copy such inputs whole, of all programs: program and op.
    """

    program: str = ""
    peak: int | None = None
    capacity: int | None = None
    unavailable: str = ""
    by_kind: dict[str, int] = field(default_factory=dict)
    holes: int | None = None
    buffers: list[HeldBuffer] = field(default_factory=list)
    course: list[Moment] = field(default_factory=list)
    undonated: int | None = None
    batches: int | None = None
    input_copies: tuple[tuple[str, str], ...] = ()


def device_memory(
    protos: Mapping[str, bytes], device_type: str, ran: Mapping[str, float] | None = None
) -> DeviceMemory:
    """Memory of the program with the highest need among serialized HloProtos by program name.

    `ran` are the programs of the steps and of what is between them, with the share of the device's time that each took;
    None where they are unknown. A trace has others too, such as those that made the first weights, which take nothing
    while training runs.
    """
    ran = ran or {}
    chip = chip_of(device_type)
    capacity = chip.hbm_usable_bytes if chip else None
    if not protos:
        return DeviceMemory(capacity=capacity, unavailable=NO_PROGRAMS)
    known = {name: data for name, data in protos.items() if name in ran} or protos
    found = [
        memory
        for name, data in known.items()
        if (memory := _program(name, data, capacity, ran.get(name, 0.0) >= IS_THE_STEP_FROM_SHARE))
    ]
    if not found:
        return DeviceMemory(capacity=capacity, unavailable=NO_ASSIGNMENT)
    most = max(found, key=lambda each: each.peak or 0)
    return replace(most, input_copies=tuple(copy for each in found for copy in each.input_copies))


@lru_cache(maxsize=PROGRAMS_KEPT)
def _program(name: str, data: bytes, capacity: int | None, is_step: bool) -> DeviceMemory | None:
    from google.protobuf.message import DecodeError

    from tpuprof.decode import hlo_pb2

    try:
        proto = hlo_pb2.HloProto.FromString(data)
    except DecodeError:
        return None
    assignment = proto.buffer_assignment
    if not assignment.buffer_allocations:
        return None
    kinds: dict[str, int] = {}
    for each in assignment.buffer_allocations:
        kind = _kind(each)
        if kind:
            kinds[kind] = kinds.get(kind, 0) + each.size
    peak = sum(size for kind, size in kinds.items() if kind != "host")
    buffers, holes = _buffers(proto)
    steady = peak - kinds.get("temporaries", 0)
    kept = undonated(proto)
    replaces = kept.updates or is_step
    return DeviceMemory(
        name,
        peak,
        capacity,
        "",
        kinds,
        holes,
        buffers,
        _course(proto, steady),
        kept.bytes if replaces else 0,
        batches_in_one_program(proto),
        tuple((name, copy) for copy in kept.copies if replaces),
    )


def _kind(each: hlo_pb2.BufferAllocationProto) -> str:
    """What an allocation is for; empty where it is in neither HBM nor host memory, or on one thread's stack."""
    if each.color == HOST_MEMORY:
        return "host"
    if each.color != HBM or each.is_thread_local:
        return ""
    if each.is_entry_computation_parameter:
        return "arguments"
    if each.is_constant:
        return "constants"
    return "outputs" if each.maybe_live_out else "temporaries"


def _buffers(proto: hlo_pb2.HloProto) -> tuple[list[HeldBuffer], int | None]:
    """The largest buffers alive at the peak, and the holes in the temporaries' arena there."""
    assignment = proto.buffer_assignment
    logical = {each.id: each for each in assignment.logical_buffers}
    held: list[tuple[str, hlo_pb2.LogicalBufferProto]] = []
    holes: int | None = None
    for allocation in assignment.buffer_allocations:
        kind = _kind(allocation)
        if kind == "temporaries":
            alive = _alive_at_peak(assignment, allocation, logical)
            holes = (holes or 0) + max(allocation.size - sum(each.size for each in alive), 0)
            held += [("temporary", each) for each in alive]
        elif kind and kind != "host":
            # All values of such an allocation share its bytes; the first names it.
            # A damaged program may name buffers that it does not have.
            first = [logical.get(each.logical_buffer_id) for each in allocation.assigned[:1]]
            held += [(kind.rstrip("s"), each) for each in first if each is not None]
    held = sorted((each for each in held if each[1].size), key=lambda each: -each[1].size)[:LARGEST]
    return _described(proto, held), holes


def _alive_at_peak(
    assignment: hlo_pb2.BufferAssignmentProto,
    allocation: hlo_pb2.BufferAllocationProto,
    logical: Mapping[int, hlo_pb2.LogicalBufferProto],
) -> list[hlo_pb2.LogicalBufferProto]:
    """Buffers alive when the heap of an allocation is fullest, from the compiler's own simulation of it.

    Events are matched by buffer, not by `buffer_allocation_index`: on CPU that is the number an allocation had
    before they were merged.
    """
    inside = {each.logical_buffer_id for each in allocation.assigned}
    heap = _Heap({key: each.size for key, each in logical.items() if key in inside})
    for trace in assignment.heap_simulator_traces:
        for event in trace.events:
            heap.follow(event)
    # Without a simulation only the largest buffer that was given this place is certain.
    largest = [
        each.logical_buffer_id for each in sorted(allocation.assigned, key=lambda each: -each.size)[:1]
    ]
    return [logical[each] for each in heap.at_peak or largest if each in logical]


def _course(proto: hlo_pb2.HloProto, steady: int) -> list[Moment]:
    """Memory in use over the program: `steady` bytes that are always there, and the temporaries alive.

    Of several simulations the one that needs most HBM is followed: they have no common clock.
    """
    assignment = proto.buffer_assignment
    sizes = {each.id: each.size for each in assignment.logical_buffers}
    inside = {
        each.logical_buffer_id: sizes.get(each.logical_buffer_id, 0)
        for allocation in assignment.buffer_allocations
        if _kind(allocation) == "temporaries"
        for each in allocation.assigned
    }
    best: list[tuple[int, int]] = []
    for trace in assignment.heap_simulator_traces:
        heap, levels = _Heap(inside), []
        for event in trace.events:
            if event.buffer_id in inside:
                heap.follow(event)
                levels.append((heap.total, event.buffer_id))
        if max(levels, default=(0, 0))[0] > max(best, default=(0, 0))[0]:
            best = levels
    stretch = -(-len(best) // MOMENTS) or 1
    stretches = [range(at, min(at + stretch, len(best))) for at in range(0, len(best), stretch)]
    kept = [max(each, key=lambda at: best[at][0]) for each in stretches]
    names = _makers(proto, {best[at][1] for at in kept})
    return [Moment(at, names.get(best[at][1], ""), steady + best[at][0]) for at in kept]


def _makers(proto: hlo_pb2.HloProto, buffers: set[int]) -> dict[int, str]:
    """Names of the instructions that make buffers, by buffer."""
    places = {
        each.id: each.defined_at for each in proto.buffer_assignment.logical_buffers if each.id in buffers
    }
    ids = {each.instruction_id for each in places.values()}
    by_id = {
        each.id: each.name
        for computation in proto.hlo_module.computations
        for each in computation.instructions
        if each.id in ids
    }
    return {
        key: (each.instruction_name or by_id.get(each.instruction_id, b"")).decode("utf-8", "replace")
        for key, each in places.items()
    }


class _Heap:
    """Replays a heap; buffers that share one place count once, until the last of them is freed."""

    def __init__(self, sizes: Mapping[int, int]) -> None:
        self.at_peak: list[int] = []
        self._sizes = sizes
        self._place: dict[int, int] = {}
        self._users: dict[int, int] = {}
        self.total = self._most = 0

    def follow(self, event: hlo_pb2.HeapSimulatorTrace.Event) -> None:
        """Replay one event of the compiler's simulation."""
        if event.kind == event.FREE:
            self.free(event.buffer_id)
        else:
            shared = event.kind == event.SHARE_WITH
            self.take(event.buffer_id, event.share_with_canonical_id if shared else event.buffer_id)

    def take(self, buffer: int, place: int) -> None:
        if buffer not in self._sizes or place not in self._sizes:
            return
        self._place[buffer] = place
        if place not in self._users:
            self.total += self._sizes[place]
        self._users[place] = self._users.get(place, 0) + 1
        if self.total > self._most:
            self._most, self.at_peak = self.total, list(self._users)

    def free(self, buffer: int) -> None:
        place = self._place.pop(buffer, None)
        if place is None:
            return
        self._users[place] -= 1
        if not self._users[place]:
            del self._users[place]
            self.total -= self._sizes[place]


def _described(
    proto: hlo_pb2.HloProto, held: list[tuple[str, hlo_pb2.LogicalBufferProto]]
) -> list[HeldBuffer]:
    """Names, shapes and source lines of buffers, from the instructions that make them."""
    names = {each.defined_at.instruction_name for _, each in held if each.defined_at.instruction_name}
    ids = {each.defined_at.instruction_id for _, each in held}
    by_name: dict[bytes, hlo_pb2.HloInstructionProto] = {}
    by_id: dict[int, hlo_pb2.HloInstructionProto] = {}
    for computation in proto.hlo_module.computations:
        for each in computation.instructions:
            if each.id in ids:
                by_id[each.id] = each
            if each.name in names:
                by_name[each.name] = each
    frames = proto.hlo_module.stack_frame_index
    return [
        _held(
            kind,
            each,
            by_name.get(each.defined_at.instruction_name) or by_id.get(each.defined_at.instruction_id),
            frames,
        )
        for kind, each in held
    ]


def _held(
    kind: str,
    buffer: hlo_pb2.LogicalBufferProto,
    maker: hlo_pb2.HloInstructionProto | None,
    frames: hlo_pb2.StackFrameIndexProto,
) -> HeldBuffer:
    from tpuprof.decode.hlo_proto import place_of, shape_of

    if maker is None:
        return HeldBuffer(f"buffer {buffer.id}", kind, buffer.size, "", "", "")
    shape = shape_of(maker.shape)
    for index in buffer.defined_at.shape_index:
        shape = shape.elements[index] if index < len(shape.elements) else shape
    file, line = place_of(maker, frames)
    return HeldBuffer(
        name=maker.name.decode("utf-8", "replace"),
        kind=kind,
        bytes=buffer.size,
        shape=str(shape),
        source=f"{file}:{line}" if file else "",
        scope=maker.metadata.op_name.decode("utf-8", "replace"),
    )
