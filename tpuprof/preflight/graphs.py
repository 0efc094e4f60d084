"""A traced graph made ready for the compiler: donated buffers, sharding freedom, the user's source lines."""

from __future__ import annotations

import hashlib
import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpuprof.decode import hlo_pb2
from tpuprof.decode.hlo_proto import parse_module_proto
from tpuprof.preflight.collectives import KINDS

_LIBRARY_PARTS = tuple(
    f"{os.sep}{part}" for part in (f"site-packages{os.sep}", f"dist-packages{os.sep}", f"lib{os.sep}python3.")
)
# A graph of so few instructions on so few elements each takes a few microseconds on a TPU and a few KB: it is a check
# of a loss or a counter.
SMALL_GRAPH, SMALL_TENSOR = 60, 4096
# Frames that are there only because the script runs under preflight's dispatch mode.
_TRACER_PARTS = (
    f"{os.sep}tpuprof{os.sep}preflight{os.sep}",
    f"torch{os.sep}_ops.py",
    "_python_dispatch.py",
    "<frozen",
)
# What of a library's path depends on where it is installed.
_ENVIRONMENT = re.compile(
    rb"^.*[/\\](?:site-packages|dist-packages|lib[/\\]python3\.\d+)[/\\]|^.*[/\\](?=tpuprof[/\\]preflight[/\\])"
)


@dataclass
class Graph:
    """One distinct graph of a script, as `intercept` wrote it.

    `kind` is `step` for a whole step, else what made torch_xla run it. `parameter_names` has one entry an HLO
    parameter, empty where no module or optimizer knows the tensor. `propagate` says for which parameters the
    compiler may choose the sharding, `donors` numbers those whose buffers outputs may take.
    With `spmd` one program is spread over the devices, `replicated` ones exchange values as copies of each other;
    any other runs on one device. `updates` counts the weights it changes. `small`: it holds scalars and short vectors
    only, so that neither its time nor its memory matters. `resident` lists tensors that it does not use and that are
    in the device's memory while it runs (name, shape, dtype, bytes on one device).
    """

    number: int
    key: str
    kind: str
    count: int
    proto: bytes
    parameter_names: list[str] = field(default_factory=list)
    output_names: list[str] = field(default_factory=list)
    propagate: list[bool] = field(default_factory=list)
    donors: list[int] = field(default_factory=list)
    frames: list[str] = field(default_factory=list)
    spmd: bool = False
    replicated: bool = False
    updates: int = 0
    small: bool = False
    resident: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def devices(self, available: int) -> int:
        """How many of a slice's devices the program runs on."""
        return available if self.spmd or self.replicated else 1

    @property
    def fingerprint(self) -> str:
        """Hash of what is compiled: the program with its donations and sharding freedom."""
        digest = hashlib.sha256(self.proto)
        digest.update(bytes(self.propagate))
        digest.update(repr(self.donors).encode())
        digest.update(b"spmd" if self.spmd else b"")
        return digest.hexdigest()


def load_graph(folder: Path, entry: dict[str, Any], spmd: bool, project: str = "") -> Graph:
    """Read a graph of the manifest and make it ready for the compiler; files in `project` are named relative to it."""
    module = parse_module_proto((folder / entry["file"]).read_bytes())
    if entry.get("given"):
        use_script_lines(module, project)
        return _given_graph(module, entry)
    graph = Graph(entry["number"], entry["hash"], entry["kind"], entry["count"], b"", spmd=spmd)
    graph.frames = entry["frames"]
    graph.replicated = not spmd and any(
        each.opcode.decode() in KINDS
        for computation in module.computations
        for each in computation.instructions
    )
    graph.output_names = entry["output_names"]
    graph.updates, graph.resident = entry.get("updates", 0), entry.get("resident", [])
    parameters = _parameters(module)
    known = entry["parameters"]
    if _shapes_agree(parameters, known):
        graph.parameter_names = [each["name"] for each in known]
        graph.donors = list(entry["donors"])
        graph.propagate = [
            spmd and not each.HasField("sharding") and not info["made"]
            for each, info in zip(parameters, known, strict=True)
        ]
    else:
        graph.parameter_names = [""] * len(parameters)
        graph.propagate = [False] * len(parameters)
        graph.warnings.append(
            "Parameters could not be matched with tensors, so no buffer is donated: memory is too high"
        )
    graph.small = not graph.updates and _small(module)
    use_script_lines(module, project)
    module.name = module.name.replace(b"IrToHlo", b"SyncTensorsGraph")
    graph.proto = module.SerializeToString(deterministic=True)
    return graph


def _given_graph(module: hlo_pb2.HloModuleProto, entry: dict[str, Any]) -> Graph:
    """A program of a JAX or TorchTPU script: its donations and shardings are in it, in JAX its inputs' names too."""
    graph = graph_of_module(module, entry["number"], partitions_of(module))
    graph.key, graph.kind, graph.count = entry["hash"], entry["kind"], entry["count"]
    graph.frames, graph.updates, graph.resident = entry["frames"], entry["updates"], entry["resident"]
    if entry.get("stablehlo"):
        # One op of TorchTPU: its inputs have the names of the buffers that it took. A step has many small ones.
        graph.kind = _ops_of(module)
        if len(entry["parameter_names"]) == len(graph.parameter_names):
            graph.parameter_names = entry["parameter_names"]
        graph.output_names = entry["output_names"]
        return graph
    graph.small = not graph.updates and _small(module)
    return graph


def _ops_of(module: hlo_pb2.HloModuleProto) -> str:
    """The ops of the framework that a program of TorchTPU is made of, by the names that its instructions have."""
    named = [
        each.metadata.op_name.decode("utf-8", "replace").split("/")[0]
        for computation in module.computations
        for each in computation.instructions
        if b"/" in each.metadata.op_name
    ]
    ops = list(dict.fromkeys(named))
    if not ops:
        return module.name.decode("utf-8", "replace").removeprefix("tt_jit_")
    return (
        ops[0] if len(ops) == 1 else f"{len(ops)} ops: {', '.join(ops[:3])}{', ...' if len(ops) > 3 else ''}"
    )


def partitions_of(module: hlo_pb2.HloModuleProto) -> int:
    """Devices that a program's shardings name; 1 where it has none."""
    most = 1
    for computation in module.computations:
        for each in computation.instructions:
            tiles = math.prod(each.sharding.tile_assignment_dimensions)
            most = max(most, tiles, len(each.sharding.tile_assignment_devices))
    return most


def graph_of_module(module: hlo_pb2.HloModuleProto, number: int, partitions: int) -> Graph:
    """A program that was given as a file; the names of its inputs are those it states itself."""
    graph = Graph(number, "", "program", 1, b"", spmd=partitions > 1)
    instructions = [each for computation in module.computations for each in computation.instructions]
    graph.replicated = not graph.spmd and any(each.opcode.decode() in KINDS for each in instructions)
    parameters = _parameters(module)
    graph.parameter_names = [each.metadata.op_name.decode("utf-8", "replace") for each in parameters]
    graph.propagate = [False] * len(parameters)
    shared = {each.parameter_number for each in module.input_output_alias.entries}
    # Inputs that share a certain output's buffer stay so; those that any output may take are marked again.
    graph.donors = sorted({each.parameter_number for each in module.buffer_donor.entries} - shared)
    graph.proto = module.SerializeToString(deterministic=True)
    return graph


def use_script_lines(module: hlo_pb2.HloModuleProto, project: str = "") -> None:
    """Give each instruction the innermost source line that is not a library's.

    Ops of the backward have no Python stack of the script: they keep a library's line, or none where all
    that is left is the tracer itself.
    """
    frames = module.stack_frame_index
    chosen = {index + 1: _script_frame(frames, index + 1) for index in range(len(frames.stack_frames))}
    for computation in module.computations:
        for instruction in computation.instructions:
            metadata = instruction.metadata
            place = chosen.get(metadata.stack_frame_id)
            if place is not None:
                metadata.source_file, metadata.source_line = place
                metadata.stack_frame_id = 0
            if metadata.source_file:
                metadata.source_file = _portable(metadata.source_file, project)
    for index, name in enumerate(frames.file_names):
        frames.file_names[index] = _portable(name, project)


def _small(module: hlo_pb2.HloModuleProto) -> bool:
    each = [one for computation in module.computations for one in computation.instructions]
    return len(each) <= SMALL_GRAPH and all(
        math.prod(one.shape.dimensions) <= SMALL_TENSOR and one.opcode not in (b"while", b"custom-call")
        for one in each
    )


def _portable(name: bytes, project: str) -> bytes:
    """`torch/nn/functional.py` of a library's file and `models/decoder.py` of one in the project.

    So a graph is the same wherever environment and project lie, and from whatever folder the script was started.
    """
    inside = _ENVIRONMENT.sub(b"", name)
    if inside != name or not project:
        return inside
    return os.path.normpath(name).removeprefix(os.fsencode(project.rstrip(os.sep) + os.sep))


def _script_frame(frames: hlo_pb2.StackFrameIndexProto, frame_id: int) -> tuple[bytes, int]:
    library: tuple[bytes, int] = (b"", 0)
    seen = 0
    while 0 < frame_id <= len(frames.stack_frames) and seen < len(frames.stack_frames):
        frame = frames.stack_frames[frame_id - 1]
        location = frames.file_locations[frame.file_location_id - 1]
        name = bytes(frames.file_names[location.file_name_id - 1])
        text = name.decode("utf-8", "replace")
        if not any(part in text for part in (*_LIBRARY_PARTS, *_TRACER_PARTS)):
            return name, location.line
        if not library[0] and not any(part in text for part in _TRACER_PARTS):
            library = name, location.line
        frame_id, seen = frame.parent_frame_id, seen + 1
    return library


def _parameters(module: hlo_pb2.HloModuleProto) -> list[hlo_pb2.HloInstructionProto]:
    entry = next(each for each in module.computations if each.id == module.entry_computation_id)
    found = [each for each in entry.instructions if each.opcode == b"parameter"]
    return sorted(found, key=lambda each: each.parameter_number)


def _shapes_agree(parameters: list[hlo_pb2.HloInstructionProto], known: list[dict[str, Any]]) -> bool:
    return len(parameters) == len(known) and all(
        list(each.shape.dimensions) == info["shape"] for each, info in zip(parameters, known, strict=True)
    )
