"""Writes a predicted schedule as an XSpace, laid out as a TPU's profiler lays it out and marked as predicted.

One device plane stands for all chips of the slice, which run the same program. The step is repeated, so that
whatever looks for periods finds them; the repetitions are identical because they are one prediction.
"""

from __future__ import annotations

import zlib
from typing import Any

from tpuprof.decode import hlo_pb2, xplane_pb2
from tpuprof.decode.hlo import Computation, HloModule, Instruction
from tpuprof.preflight.collectives import Collective, Collectives
from tpuprof.preflight.flops import instruction_flops
from tpuprof.preflight.prediction import TRUST, Prediction
from tpuprof.preflight.schedule import Event, Schedule, Transfer, Work
from tpuprof.preflight.targets import Target
from tpuprof.preflight.traffic import Traffic, in_any_memory
from tpuprof.units import GIGA, TERA

# Steps written: enough to show a period (three repetitions and one more).
STEPS = 4
PREDICTED_STAT = "tpuprof_predicted"
NOTE_STAT = "tpuprof_note"
# Stats the profiler writes as unsigned numbers.
_UNSIGNED = frozenset({"program_id", "symbol_id", "run_id"})
# The device's name as its profiler writes it.
_DEVICE_TYPES = {
    "v4": "TPU v4",
    "v5e": "TPU v5 Lite",
    "v5p": "TPU v5p",
    "v6e": "TPU v6 Lite",
    "tpu7x": "TPU7x",
}
_FUSIONS = {
    "kLoop": "loop fusion",
    "kInput": "input fusion",
    "kOutput": "output fusion",
    "kCustom": "custom fusion",
}


class _PlaneWriter:
    """Interns names and stats of one plane."""

    def __init__(self, plane: Any) -> None:
        self.plane = plane
        self._stats: dict[str, int] = {}
        self._events: dict[str, int] = {}

    def stat(self, owner: Any, name: str, value: int | float | str | bytes) -> None:
        """Add one stat to a plane, event or event metadata."""
        key = self._stats.setdefault(name, len(self._stats) + 1)
        if key not in self.plane.stat_metadata:
            self.plane.stat_metadata[key].id = key
            self.plane.stat_metadata[key].name = name.encode()
        stat = owner.add(metadata_id=key)
        if isinstance(value, bytes):
            stat.bytes_value = value
        elif isinstance(value, str):
            stat.str_value = value.encode()
        elif isinstance(value, float):
            stat.double_value = value
        elif name in _UNSIGNED:
            stat.uint64_value = value
        else:
            stat.int64_value = value

    def event_id(self, key: str, name: str, display: str = "") -> tuple[int, bool]:
        """Id of an event metadata by a key of ours, and whether it is new."""
        if key in self._events:
            return self._events[key], False
        number = len(self._events) + 1
        self._events[key] = number
        metadata = self.plane.event_metadata[number]
        metadata.id, metadata.name, metadata.display_name = number, name.encode(), display.encode()
        return number, True


def predicted_xspace(found: Prediction, hostname: str, start_ns: int) -> bytes:
    """A serialized XSpace of a prediction that has a schedule; `start_ns` is the time its first step begins."""
    if found.module is None or found.schedule is None:
        raise ValueError("a prediction without a program has no trace")
    space = xplane_pb2.XSpace()
    space.hostnames.append(hostname.encode())
    program = _program_id(found)
    _DevicePlane(space.planes.add(), found, program, hostname, start_ns).write()
    _metadata_plane(space.planes.add(), found, program)
    _note_plane(space.planes.add(), found)
    return space.SerializeToString(deterministic=True)


class _DevicePlane:
    """Writes `/device:TPU:0`."""

    def __init__(self, plane: Any, found: Prediction, program: int, hostname: str, start_ns: int) -> None:
        assert found.module is not None
        assert found.schedule is not None
        self.module: HloModule = found.module
        self.schedule: Schedule = found.schedule
        self.found, self.program, self.start_ns = found, program, start_ns
        self.hostname = hostname
        self.writer = _PlaneWriter(plane)
        self.plane = plane
        self.collectives = Collectives(self.module, found.compiled.target.devices)
        self.traffic = Traffic(self.module)
        self.homes = {
            each.name: computation
            for computation in self.module.computations.values()
            for each in computation
        }

    def write(self) -> None:
        """Write plane stats and all lines."""
        plane, chip = self.plane, self.found.compiled.target.chip
        plane.id, plane.name = 1, b"/device:TPU:0"
        put = self.writer.stat
        put(plane.stats, "device_type_string", _DEVICE_TYPES[chip.name])
        put(plane.stats, "peak_teraflops_per_second", chip.peak_flops_per_s / TERA)
        put(plane.stats, "peak_hbm_bw_gigabytes_per_second", chip.hbm_bytes_per_s / GIGA)
        put(plane.stats, "has_megacore", int(chip.name in ("v4", "v5p")))
        put(plane.stats, "core_details", _core_details(self.hostname))
        put(plane.stats, PREDICTED_STAT, "1")
        put(plane.stats, NOTE_STAT, f"predicted by tpuprof preflight, not measured: {TRUST}")
        self._steps(self._line(1, "Steps"))
        self._modules(self._line(2, "XLA Modules"))
        self._ops(self._line(3, "XLA Ops"))
        self._transfers(self._line(4, "Async XLA Ops"))

    def _line(self, number: int, name: str) -> Any:
        return self.plane.lines.add(
            id=number, display_id=number, name=name.encode(), timestamp_ns=self.start_ns
        )

    def _offsets(self) -> list[int]:
        return [step * self.schedule.duration for step in range(STEPS)]

    def _steps(self, line: Any) -> None:
        for number, offset in enumerate(self._offsets()):
            key, _ = self.writer.event_id(f"step {number}", str(number))
            line.events.add(metadata_id=key, offset_ps=offset, duration_ps=self.schedule.duration)

    def _modules(self, line: Any) -> None:
        key, _ = self.writer.event_id("module", f"{self.module.name}({self.program})")
        for number, offset in enumerate(self._offsets()):
            event = line.events.add(metadata_id=key, offset_ps=offset, duration_ps=self.schedule.duration)
            self.writer.stat(event.stats, "run_id", number + 1)

    def _ops(self, line: Any) -> None:
        ordered = sorted(self.schedule.events, key=lambda each: (each.start, -each.duration))
        rows = [(self._op(each), each.start, each.duration) for each in ordered]
        for offset in self._offsets():
            for key, start, duration in rows:
                line.events.add(metadata_id=key, offset_ps=offset + start, duration_ps=duration)

    def _transfers(self, line: Any) -> None:
        rows = [self._transfer(each) for each in self.schedule.transfers if each.work is not Work.PREFETCH]
        for offset in self._offsets():
            for key, done, start, duration in rows:
                event = line.events.add(metadata_id=key, offset_ps=offset + start, duration_ps=duration)
                self.writer.stat(event.stats, "hlo_op", done)

    def _op(self, event: Event) -> int:
        each = event.instruction
        home = self.homes[each.name]
        key, new = self.writer.event_id(f"op {each.name}", long_name(home, each), each.name)
        if new:
            self._describe(key, each)
        return key

    def _transfer(self, transfer: Transfer) -> tuple[int, str, int, int]:
        each = transfer.start_instruction
        home = self.homes[each.name]
        label = "async-copy" if transfer.work is Work.OFFLOAD else each.name
        key, new = self.writer.event_id(f"async {each.name}", long_name(home, each), label)
        if new:
            self._describe(key, each, transfer.bytes)
        return key, transfer.done, transfer.start, transfer.duration

    def _describe(self, key: int, each: Instruction, size: int | None = None) -> None:
        stats, put = self.plane.event_metadata[key].stats, self.writer.stat
        collective = self.collectives.of(each)
        put(stats, "hlo_category", category(self.module, each, collective))
        put(stats, "program_id", self.program)
        # XProf counts ops by program and symbol; any number that tells a program's ops apart will do.
        put(stats, "symbol_id", key)
        flops = instruction_flops(self.module, each)
        put(stats, "flops", flops)
        put(stats, "model_flops", flops)
        accessed = size if size is not None else _bytes_accessed(self.traffic, each)
        put(stats, "bytes_accessed", accessed)
        if each.source:
            put(stats, "source", each.source)
        if each.op_name:
            put(stats, "tf_op", f"{each.op_name}:")


def long_name(home: Computation, each: Instruction) -> str:
    """The instruction's line as a TPU's trace writes it: each operand with its shape and layout before its name."""
    head, separator, rest = each.text.partition(f" {each.opcode}(")
    close = rest.find(")")
    if not separator or close < 0:
        return each.text
    operands = []
    for name in each.operands:
        made = home.instructions.get(name)
        operands.append(f"{made.shape_text} %{name}" if made else f"%{name}")
    return f"{head} {each.opcode}({', '.join(operands)}{rest[close:]}"


def category(module: HloModule, each: Instruction, collective: Collective | None) -> str:
    """The profiler's word for an op: its opcode, or what kind of fusion it is."""
    if each.opcode != "fusion":
        return each.opcode
    if collective is not None and collective.role != "part":
        return f"{collective.kind} fusion"
    inner = module.called(each, "calls")
    if inner is not None and any(part.opcode in ("convolution", "dot") for part in inner):
        return "convolution fusion"
    return _FUSIONS.get(each.attributes.get("kind", ""), "fusion")


def _bytes_accessed(traffic: Traffic, each: Instruction) -> int:
    """Bytes that the op itself reads and writes, whatever memory they are in."""
    if each.opcode in ("while", "call", "conditional") or each.opcode.endswith("-done"):
        return 0
    return traffic.of(each, in_any_memory)


def _metadata_plane(plane: Any, found: Prediction, program: int) -> None:
    assert found.module is not None
    plane.id, plane.name = 2, b"/host:metadata"
    writer = _PlaneWriter(plane)
    key, _ = writer.event_id("program", f"{found.module.name}({program})")
    # The profiler stores a whole HloProto: one field, the module.
    wrapped = hlo_pb2.HloProto()
    wrapped.hlo_module.MergeFromString(found.compiled.hlo_proto)
    writer.stat(plane.event_metadata[key].stats, "Hlo Proto", wrapped.SerializeToString(deterministic=True))


def _note_plane(plane: Any, found: Prediction) -> None:
    plane.id, plane.name = 3, b"Task Environment"
    writer = _PlaneWriter(plane)
    target: Target = found.compiled.target
    writer.stat(plane.stats, PREDICTED_STAT, "1")
    writer.stat(plane.stats, NOTE_STAT, TRUST)
    writer.stat(plane.stats, "tpuprof_target", target.name)


def _core_details(hostname: str) -> bytes:
    """A serialized CoreDetails of chip 0, core 0; XProf counts no op of a TPU plane without it. Field 1: hostname."""
    name = hostname.encode()[:127]
    return bytes([0x0A, len(name)]) + name


def _program_id(found: Prediction) -> int:
    """A stable, positive number for this program on this target, as the profiler's fingerprint is."""
    text = f"{found.compiled.graph.fingerprint} {found.compiled.target.topology}"
    return zlib.crc32(text.encode()) << 24 | zlib.adler32(text.encode()) & 0xFFFFFF
