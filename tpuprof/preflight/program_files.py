"""Programs given as files: StableHLO, HLO, compiler dumps and captures, told apart by their content.

A program that no compiler has optimized yet is compiled for the slices like a script's step. One that a TPU compiler
has scheduled is read as it is.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tpuprof.chips import chip_of
from tpuprof.decode import hlo_pb2
from tpuprof.decode.hlo import HloModule
from tpuprof.decode.hlo_proto import from_proto, parse_module_proto
from tpuprof.decode.hlo_text import parse_hlo_text
from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight.compiler import CompileOptions
from tpuprof.preflight.graphs import Graph, graph_of_module, partitions_of

_BYTECODE = b"ML\xefR"
_HLO_TEXT = re.compile(rb"^HloModule\s", re.MULTILINE)
_MLIR_TEXT = re.compile(rb"^\s*(module\s*(@|attributes|\{)|func\.func\s)", re.MULTILINE)
_SNIFFED = 1 << 16
_GZIP = b"\x1f\x8b"
_CONVERT_LIMIT_S = 600
# Files of an --xla_dump_to folder: `module_0003.jit_step.before_optimizations.txt`, on TPU with more words between.
_DUMPED = re.compile(
    r"^(?P<module>module_\d+\..+?)\.(?:[\w-]+\.)*?(?P<stage>before_optimizations|after_optimizations)"
    r"(?P<rest>\.txt|\.hlo|\.hlo\.pb|\.hlo_module\.pb|\.hlo\.pb\.gz)$"
)
BEFORE, AFTER = "before_optimizations", "after_optimizations"
_SUFFIXES = (".mlir", ".stablehlo", ".bytecode", ".hlo", ".hlo.pb")
_KINDS = {"stablehlo": "StableHLO", "hlo-text": "HLO text", "hlo-proto": "HLO proto", "capture": "capture"}


@dataclass
class Program:
    """One program of a file. `optimized`: it is scheduled, so that it is read and not compiled.

    `tpu`: its layouts are a TPU's. `partitions` is how many devices it says it is for (1 where it says nothing), `chip`
    the generation that a capture names, empty elsewhere.
    """

    name: str
    path: Path
    kind: str
    proto: bytes
    module: HloModule
    partitions: int = 1
    chip: str = ""

    @property
    def optimized(self) -> bool:
        """Whether a compiler has fixed the order in which it runs."""
        return self.module.is_scheduled

    @property
    def tpu(self) -> bool:
        """Whether its layouts are tiled as only a TPU's are."""
        return any(leaf.tiles for each in self.module.instructions() for leaf in each.shape.leaves())

    @property
    def source(self) -> str:
        """Where it is from, for people."""
        return f"{_KINDS[self.kind]} {self.path.name}"


def program_kind(path: Path) -> str:
    """`stablehlo`, `hlo-text`, `hlo-proto`, `capture` or `folder` by content; empty for anything else (a script)."""
    if path.is_dir():
        captured = any(True for _ in path.rglob("*.xplane.pb*"))
        return "" if captured or not any(True for _ in _program_files(path)) else "folder"
    return "" if not path.is_file() or path.suffix == ".py" else _file_kind(path)


def _file_kind(path: Path) -> str:
    start = _head(path)
    if start.startswith(_BYTECODE) or _MLIR_TEXT.search(start):
        return "stablehlo"
    return "hlo-text" if _HLO_TEXT.search(start) else _proto_kind(path)


def read_programs(path: Path, options: CompileOptions, stage: str = BEFORE) -> list[Program]:
    """All programs of a file or folder, the largest first; of a dump those before or after optimization.

    Raises `TpuprofError` where there is none to read.
    """
    kind = program_kind(path)
    if kind == "folder":
        found = [each for file in _program_files(path, stage) for each in read_programs(file, options)]
    elif kind == "capture":
        found = _of_capture(path)
    elif kind in ("stablehlo", "hlo-text"):
        found = [_converted(path, kind, options)]
    elif kind == "hlo-proto":
        found = [_of_proto(path, _read(path), kind, path.name.split(".hlo")[0])]
    else:
        raise TpuprofError(
            Code.NO_TRACE, f"{path} holds no program.",
            "Give StableHLO (text or bytecode), HLO (text or proto), an --xla_dump_to folder, or an .xplane.pb file.",
        )  # fmt: skip
    return sorted(found, key=lambda each: -len(each.proto))


def complete(program: Program, options: CompileOptions) -> bool:
    """Read the program from its text where that says more than the proto's reading; whether all is known then.

    Only the text has the windows of convolutions (a TPU's matrix products are convolutions), and how asynchronous ops
    belong together.
    """
    if program.kind == "hlo-text" or not (program.optimized or _lacks_windows(program.module)):
        return True
    with tempfile.TemporaryDirectory(prefix="tpuprof-program-") as name:
        source, made = Path(name) / "program.hlo.pb", Path(name) / "program.txt"
        source.write_bytes(program.proto)
        done = _worker(["--to-text", str(source), str(made)], options)
        if done.returncode or not made.is_file():
            return False
        program.module = parse_hlo_text(made.read_text("utf-8", "replace"))
    return not _lacks_windows(program.module)


def _lacks_windows(module: HloModule) -> bool:
    return any(
        each.opcode == "convolution" and "dim_labels" not in each.attributes for each in module.instructions()
    )


def _worker(arguments: list[str], options: CompileOptions) -> subprocess.CompletedProcess[str]:
    command = [options.python, "-m", "tpuprof.preflight.worker", *arguments]
    return subprocess.run(
        command,
        env=options.variables(),
        capture_output=True,
        text=True,
        timeout=_CONVERT_LIMIT_S,
        check=False,
    )


def to_graph(program: Program, number: int = 0) -> Graph:
    """The program as a graph to compile."""
    message = hlo_pb2.HloModuleProto.FromString(program.proto)
    graph = graph_of_module(message, number, program.partitions)
    graph.key = hashlib.sha256(program.proto).hexdigest()[:32]
    return graph


def _program_files(folder: Path, stage: str = BEFORE) -> Iterator[Path]:
    """The programs' files of a folder: of a dump each module once, of that stage where it is there."""
    dumped: dict[tuple[Path, str], Path] = {}
    for path in sorted(folder.rglob("*")):
        found = _DUMPED.match(path.name)
        if found is None:
            if path.is_file() and path.name.endswith(_SUFFIXES):
                yield path
            continue
        key = (path.parent, found["module"])
        if key not in dumped or (found["stage"] == stage and _stage(dumped[key]) != stage):
            dumped[key] = path
    yield from dumped.values()


def _stage(path: Path) -> str:
    found = _DUMPED.match(path.name)
    return found["stage"] if found else ""


def _head(path: Path) -> bytes:
    """The first bytes of a file, unpacked where it is compressed; empty where they cannot be."""
    with path.open("rb") as file:
        data = file.read(_SNIFFED)
    if data[:2] != _GZIP:
        return data
    try:
        return zlib.decompressobj(wbits=31).decompress(data, _SNIFFED)
    except zlib.error:
        return b""


def _read(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == _GZIP else data


def _proto_kind(path: Path) -> str:
    if path.name.endswith(".xplane.pb"):
        return "capture"
    if ".pb" not in path.suffixes and path.suffix != ".hlo":
        return ""
    try:
        parse_module_proto(_read(path))
    except TpuprofError:
        return ""
    return "hlo-proto"


def _of_proto(path: Path, data: bytes, kind: str, name: str, partitions: int = 0) -> Program:
    message = parse_module_proto(data)
    module = from_proto(message)
    return Program(
        name, path, kind, message.SerializeToString(), module, partitions or partitions_of(message)
    )


def _of_capture(path: Path) -> list[Program]:
    from tpuprof.decode.load import load
    from tpuprof.model.compile.hlo_metadata import hlo_protos

    trace = load(path)
    found = [_of_proto(path, data, "capture", name) for name, data in hlo_protos(trace)]
    chips = [chip_of(plane.own_stat("device_type_string") or "") for plane in trace.planes]
    chip = next((each.name for each in chips if each is not None), "")
    for each in found:
        each.chip = chip
    if not found:
        raise TpuprofError(
            Code.NO_TRACE,
            f"{path} holds no program.",
            "Capture with tpuprof capture, which keeps the programs' HLO.",
        )
    return found


def _converted(path: Path, kind: str, options: CompileOptions) -> Program:
    """A program that jaxlib reads, as an HLO proto; in a process of its own, since the input is anyone's."""
    with tempfile.TemporaryDirectory(prefix="tpuprof-program-") as name:
        source, made = Path(name) / "program", Path(name) / "program.hlo.pb"
        source.write_bytes(_read(path))
        done = _worker(["--convert", kind, str(source), str(made)], options)
        if done.returncode or not made.is_file():
            reason = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
            raise TpuprofError(
                Code.CORRUPT, f"{path}: the {_KINDS[kind]} cannot be read: {reason[:300]}",
                "Check that it is whole, and written by a version that the installed jaxlib reads.",
            )  # fmt: skip
        partitions = int(json.loads(done.stdout.strip().splitlines()[-1])["partitions"])
        program = _of_proto(path, made.read_bytes(), kind, path.name.split(".")[0], max(partitions, 1))
    if kind == "hlo-text":
        # The text's own reading keeps the schedule and the compiler's estimates.
        program.module = parse_hlo_text(_read(path).decode("utf-8", "replace"))
    return program
