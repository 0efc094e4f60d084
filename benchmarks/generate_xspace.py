"""Writes an XSpace of any size that looks like a torch_xla capture on TPU.

    python benchmarks/generate_xspace.py out.xplane.pb --events 3000000

Lines, stats and bytes an event follow a real capture of a v6e host with four chips: the devices run the same
program step by step (`XLA Modules`, `XLA Ops` with a `while` around most of them, `XLA TraceMe`; `Async XLA Ops`
on the first device alone), a host plane holds the training thread with step markers and torch_xla's events,
dispatch threads and thread pools, and a metadata plane the HLO of a program compiled for TPU (a sample's). The
file is written as it is made, so memory does not grow with it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from wire_columns import Column, flat, integer, message

from tpuprof.decode import xplane_pb2

SHAPES = 40  # different ones in the program
POOL_EVENTS = 40  # events a pool thread and step
STEP_PS = 250_000_000_000
STEPS_A_CHUNK = 16
SAMPLE = Path(__file__).resolve().parent.parent / "sample_traces" / "predicted_decoder_fsdpv2"
PROGRAM = "SyncTensorsGraph.66628(14940262714490726846)"
# A length of five bytes is written first and filled in when the plane is complete.
_LENGTH_BYTES = 5

STATS = [
    "run_id", "replica_id", "queue_id", "core_type", "_ct", "_c", "_pt", "_p", "device_offset_ps",
    "device_duration_ps", "hlo_op", "_a", "flow", "id", "size", "_r", "step_num", "hlo_category", "program_id",
    "symbol_id", "flops", "model_flops", "bytes_accessed", "source", "tf_op", "shape_with_layout", "Hlo Proto",
    "raw_bytes_accessed", "memory_access_breakdown", "source_stack",
    "device_type_string", "peak_teraflops_per_second", "peak_hbm_bw_gigabytes_per_second", "device_ordinal",
]  # fmt: skip
KEY = {name: number for number, name in enumerate(STATS, 1)}
INT64, UINT64, REF = 4, 3, 7
TRACED_OPS = [
    "aten::add",
    "aten::mul",
    "aten::mm",
    "aten::_softmax",
    "aten::native_layer_norm",
    "xla::computation",
]
TRACING = [
    *TRACED_OPS,
    "SyncLiveTensorsGraph", "CollectSyncTensors", "RunPostOrder", "ScheduleSyncTensorsGraph",
    "PjRtComputationClient::TransferToDevice", "cpu_loader.next",
]  # fmt: skip
POOL = [
    "PjRtComputationClient::ExecuteReplicated", "tpu::System::Execute=>IssueSequencedEvent",
    "tpu::System::TransferFromDevice=>IssueEvent=>Done", "Scheduled TfrtTpuLoadedExecutable::Execute",
    "ThreadpoolListener::Record", "tpu::System::TransferToDevice",
]  # fmt: skip
CATEGORIES = [
    "loop fusion",
    "convolution fusion",
    "all-gather",
    "copy-done",
    "custom-call",
    "data formatting",
]


@dataclass
class Size:
    """How much a step holds. `ops` are XLA Ops per device, as in a step of a mid-sized decoder unless given.

    `transfers` are Async XLA Ops of the first device, `traced` events of the training thread.
    """

    devices: int = 4
    ops: int = 1_500
    transfers: int = 60
    traced: int = 260
    pool_threads: int = 24

    @property
    def per_step(self) -> int:
        """Events of one step."""
        return self.devices * (3 + self.ops) + self.transfers + self.traced + self.pool_threads * POOL_EVENTS


SIZE = Size()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--events", type=int, default=3_000_000)
    parser.add_argument("--steps", type=int, default=0, help="instead of --events")
    for name, value in vars(SIZE).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    arguments = parser.parse_args()
    for name in vars(SIZE):
        setattr(SIZE, name, getattr(arguments, name))
    if arguments.steps:
        arguments.events = arguments.steps * SIZE.per_step
    count = generate(arguments.out, arguments.events)
    print(f"{count:,} events, {arguments.out.stat().st_size / 1e6:,.0f} MB")


def generate(path: Path, events: int) -> int:
    """Write about `events` events (whole steps) to `path`; how many there are in the end."""
    steps = max(2, round(events / SIZE.per_step))
    with path.open("wb") as file:
        for index in range(SIZE.devices):
            with _Plane(file) as plane:
                plane.write(_device_head(index))
                _device_lines(plane, index, steps)
        with _Plane(file) as plane:
            plane.write(_host_head())
            _host_lines(plane, steps)
        space = xplane_pb2.XSpace(hostnames=[b"tpu-vm-0"])
        _add_program(space)
        file.write(space.SerializeToString())
    return steps * SIZE.per_step


class _Patched:
    """A length-delimited field written as it comes: its length is filled in at the end."""

    def __init__(self, file: BinaryIO, field: int) -> None:
        self.file, self.field = file, field

    def __enter__(self) -> _Patched:
        self.file.write(bytes([self.field << 3 | 2]) + bytes(_LENGTH_BYTES))
        self.start = self.file.tell()
        return self

    def __exit__(self, *exc: object) -> None:
        end = self.file.tell()
        length = end - self.start
        groups = [length >> 7 * place & 0x7F | 0x80 for place in range(_LENGTH_BYTES)]
        groups[-1] &= 0x7F
        self.file.seek(self.start - _LENGTH_BYTES)
        self.file.write(bytes(groups))
        self.file.seek(0, os.SEEK_END)

    def write(self, data: bytes) -> None:
        self.file.write(data)

    def line(self, name: str, number: int) -> _Patched:
        """Begin a line; its events follow."""
        line = _Patched(self.file, 3)
        line.head = xplane_pb2.XLine(id=number, name=name.encode(), timestamp_ns=1_700_000_000_000_000_000)
        return line

    head: xplane_pb2.XLine


class _Plane(_Patched):
    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, 1)


def _chunks(steps: int) -> Iterator[np.ndarray]:
    for first in range(0, steps, STEPS_A_CHUNK):
        yield np.arange(first, min(first + STEPS_A_CHUNK, steps))


def _stat(name: str, field: int, values: np.ndarray) -> Column:
    return message(4, integer(1, np.full(len(values), KEY[name])), integer(field, values))


def _events(metadata: np.ndarray, offset: np.ndarray, duration: np.ndarray, *stats: Column) -> bytes:
    return flat(message(4, integer(1, metadata), integer(2, offset), integer(3, duration), *stats))


def _write_line(plane: _Patched, name: str, number: int, steps: int, make: object) -> None:
    assert callable(make)
    with plane.line(name, number) as line:
        line.write(line.head.SerializeToString())
        for step in _chunks(steps):
            line.write(make(step))


def _device_lines(plane: _Patched, index: int, steps: int) -> None:
    noise = np.random.default_rng(index)
    busy = int(STEP_PS * 0.8)
    slot = busy // SIZE.ops

    def begin(step: np.ndarray) -> np.ndarray:
        return step * STEP_PS + 10_000_000_000

    def whole(step: np.ndarray) -> bytes:
        return _events(
            np.full(len(step), SIZE.ops + 1), begin(step), np.full(len(step), busy), *_module_stats(step)
        )

    def ops(step: np.ndarray) -> bytes:
        at = np.arange(SIZE.ops)
        offset = (
            begin(step)[:, None] + at * slot + noise.integers(0, slot // 8, (len(step), SIZE.ops))
        ).ravel()
        length = noise.integers(slot // 4, slot // 2, (len(step), SIZE.ops))
        length[:, 1] = slot * (SIZE.ops - 4)  # the `while` that holds the layers
        length = length.ravel()
        stats = _stat("device_offset_ps", UINT64, offset), _stat("device_duration_ps", UINT64, length)
        return _events(np.tile(at + 1, len(step)), offset, length, *stats)

    def transfers(step: np.ndarray) -> bytes:
        at = np.arange(SIZE.transfers)
        offset = (begin(step)[:, None] + at * (busy // SIZE.transfers)).ravel()
        length = noise.integers(slot, 20 * slot, len(offset))
        flow = (step[:, None] * SIZE.transfers + at).ravel()
        stats = (
            _stat("hlo_op", REF, np.tile(at % len(STATS) + 1, len(step))),
            _stat("flow", UINT64, flow + 2**40),
        )
        ids = _stat("_a", INT64, np.ones(len(flow))), _stat("id", UINT64, flow)
        return _events(np.tile(at * 20 + 3, len(step)), offset, length, *stats, *ids)

    def marks(step: np.ndarray) -> bytes:
        return _events(np.full(len(step), SIZE.ops + 2), begin(step), np.full(len(step), busy))

    def notes(step: np.ndarray) -> bytes:
        return _events(np.full(len(step), SIZE.ops + 3), begin(step), np.full(len(step), slot))

    lines = {"Steps": marks, "XLA Modules": whole, "XLA Ops": ops, "XLA TraceMe": notes}
    if index == 0 and SIZE.transfers:
        lines["Async XLA Ops"] = transfers
    for number, (name, make) in enumerate(lines.items(), 1):
        _write_line(plane, name, number, steps, make)


def _module_stats(step: np.ndarray) -> list[Column]:
    values = {"run_id": step + 2**30, "replica_id": 0 * step, "queue_id": step % 7, "core_type": 0 * step + 1}
    stats = [_stat(name, UINT64, column) for name, column in values.items()]
    return [*stats, _stat("_ct", INT64, 0 * step + 14), _stat("_c", INT64, step * 977 + 2**45)]


def _device_head(index: int) -> bytes:
    plane = xplane_pb2.XPlane(id=index + 1, name=f"/device:TPU:{index}".encode())
    _add_stat_names(plane)
    _add_stat(plane.stats.add(), "device_type_string", "TPU v6 Lite")
    _add_stat(plane.stats.add(), "peak_teraflops_per_second", 918.0)
    _add_stat(plane.stats.add(), "peak_hbm_bw_gigabytes_per_second", 1640.0)
    for row in range(SIZE.ops):
        opcode = "while" if row == 1 else "copy-start" if row % 20 == 2 else "fusion"
        shape = f"bf16[8,{row % SHAPES * 64 + 64},1024]{{2,1,0:T(8,128)(2,1)}}"
        meta = plane.event_metadata[row + 1]
        meta.id, meta.display_name = row + 1, f"{opcode}.{row}".encode()
        meta.name = f"%{opcode}.{row} = {shape} {opcode}({shape} %param.{row}, {shape} %copy.{row})".encode()
        facts = {
            "hlo_category": "while" if row == 1 else CATEGORIES[row % len(CATEGORIES)],
            "program_id": 14940262714490726846,
            "symbol_id": row,
            "flops": 10**9 + row,
            "model_flops": 10**9 + row,
            "bytes_accessed": 10**6 + row,
            "raw_bytes_accessed": 10**6 + row,
            "memory_access_breakdown": bytes(range(24)),
            "source_stack": f"/home/user/train.py:80\n/home/user/model/decoder.py:{row % 300 + 1}",
            "source": f"/home/user/model/decoder.py:{row % 300 + 1}",
            "tf_op": f"layers.{row % 32}/attention/aten__mm.{row}",
            "shape_with_layout": shape,
        }
        for name, value in facts.items():
            _add_stat(meta.stats.add(), name, value)
    for number, name in ((SIZE.ops + 1, PROGRAM), (SIZE.ops + 2, "step"), (SIZE.ops + 3, "trace_me")):
        plane.event_metadata[number].id, plane.event_metadata[number].name = number, name.encode()
    return plane.SerializeToString()


def _host_head() -> bytes:
    plane = xplane_pb2.XPlane(id=SIZE.devices + 1, name=b"/host:CPU")
    _add_stat_names(plane)
    for number, name in enumerate(["train_step", *TRACING, *POOL], 1):
        plane.event_metadata[number].id, plane.event_metadata[number].name = number, name.encode()
    return plane.SerializeToString()


def _host_lines(plane: _Patched, steps: int) -> None:
    def training(step: np.ndarray) -> bytes:
        start = step * STEP_PS
        marker = _events(
            np.ones(len(step)),
            start,
            np.full(len(step), int(STEP_PS * 0.95)),
            _stat("_r", INT64, np.ones(len(step))),
            _stat("step_num", INT64, step),
        )
        count = SIZE.traced - 1
        at = np.arange(count)
        slot = int(STEP_PS * 0.9) // count
        offset = (start[:, None] + 1_000_000 + at * slot).ravel()
        # A batch is fetched and sent, ops are traced, one graph cut ends the step.
        names = ["cpu_loader.next", "PjRtComputationClient::TransferToDevice"]
        cut = ["SyncLiveTensorsGraph", "CollectSyncTensors", "RunPostOrder", "ScheduleSyncTensorsGraph"]
        names += [TRACED_OPS[row % len(TRACED_OPS)] for row in range(count - len(names) - len(cut))] + cut
        kind = np.tile([TRACING.index(name) + 2 for name in names], len(step))
        return marker + _events(kind, offset, np.full(len(offset), slot * 2 // 3))

    _write_line(plane, "python", 1, steps, training)
    first = 2 + len(TRACING)
    for thread in range(SIZE.pool_threads):
        noise = np.random.default_rng(1000 + thread)

        def pooled(step: np.ndarray, noise: np.random.Generator = noise) -> bytes:
            at = np.arange(POOL_EVENTS)
            slot = STEP_PS // POOL_EVENTS
            offset = (
                (step * STEP_PS)[:, None] + at * slot + noise.integers(0, slot // 2, (len(step), POOL_EVENTS))
            ).ravel()
            rows = len(offset)
            context = noise.integers(2**40, 2**46, rows)
            stats = _stat("_ct", INT64, np.full(rows, 14)), _stat("_c", INT64, context)
            size = _stat("size", INT64, noise.integers(64, 2**24, rows))
            return _events(
                np.tile(at % len(POOL) + first, len(step)),
                offset,
                noise.integers(10**6, slot // 3, rows),
                *stats,
                size,
            )

        name = f"tf_pytorchxla/{300 + thread}" if thread < 4 else f"pjrt-tpu-tasks/{400 + thread}"
        _write_line(plane, name, 2 + thread, steps, pooled)


def _add_program(space: xplane_pb2.XSpace) -> None:
    plane = space.planes.add(id=SIZE.devices + 2, name=b"/host:metadata")
    _add_stat_names(plane)
    meta = plane.event_metadata[1]
    meta.id, meta.name = 1, PROGRAM.encode()
    _add_stat(meta.stats.add(), "Hlo Proto", _compiled_program())


def _compiled_program() -> bytes:
    """A serialized HloProto of a real compile for TPU; its ops are others than the trace's, its size is right."""
    file = next(SAMPLE.glob("plugins/profile/*/*.xplane.pb"))
    space = xplane_pb2.XSpace.FromString(file.read_bytes())
    stored = next(plane for plane in space.planes if plane.name == b"/host:metadata")
    return next(iter(stored.event_metadata.values())).stats[0].bytes_value


def _add_stat_names(plane: xplane_pb2.XPlane) -> None:
    for name, number in KEY.items():
        plane.stat_metadata[number].id, plane.stat_metadata[number].name = number, name.encode()


def _add_stat(stat: xplane_pb2.XStat, name: str, value: int | float | str | bytes) -> None:
    stat.metadata_id = KEY[name]
    if isinstance(value, float):
        stat.double_value = value
    elif isinstance(value, int):
        stat.uint64_value = value
    elif isinstance(value, bytes):
        stat.bytes_value = value
    else:
        stat.str_value = value.encode()


if __name__ == "__main__":
    main()
