"""Programs given as files: StableHLO, HLO, compiler dumps and captures, told apart by their content.

A program that no compiler has optimized yet is compiled for the slices like a script's step. One that a TPU compiler
has scheduled is read as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tpuprof.chips import chip_of
from tpuprof.decode import hlo_pb2, sniff
from tpuprof.decode.folder_walk import files_below
from tpuprof.decode.hlo import HloModule
from tpuprof.decode.hlo_proto import from_proto, parse_module_proto
from tpuprof.decode.hlo_text import parse_hlo_text
from tpuprof.decode.reading import reading
from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight.compiler import CompileOptions
from tpuprof.preflight.graphs import Graph, graph_of_module, partitions_of
from tpuprof.run_folder import PROFILE_SUFFIX, PROFILE_SUFFIXES

_BYTECODE = b"ML\xefR"
_HLO_TEXT = re.compile(rb"^HloModule\s", re.MULTILINE)
_MLIR_TEXT = re.compile(rb"^\s*(module\s*(@|attributes|\{)|func\.func\s)", re.MULTILINE)
# Bytes that no text holds, and every profile does.
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a]")
_CONVERT_LIMIT_S = 600
_NO_JAX = "No module named 'jax"
_NOT_WHOLE = "it ends early, or names what it does not hold."
_A_PROGRAM = "a program"
# Files of an --xla_dump_to folder: `module_0003.jit_step.before_optimizations.txt`, on TPU with more words between, on
# other devices with theirs before the stage (`cpu_after_optimizations`). People rename and pack them.
_DUMPED = re.compile(
    r"^(?P<module>module_\d+\..+?|(?!module_\d).+)\.(?:[\w-]+\.)*?(?:[a-z0-9]+_)?"
    r"(?P<stage>before_optimizations|after_optimizations)"
    r"(?P<rest>\.txt|\.hlo|\.hlo\.txt|\.hlo\.pb|\.hlo_module\.pb)(\.gz)?$"
)
BEFORE, AFTER = "before_optimizations", "after_optimizations"
# Other files of a dump are the compiler's own steps, such as `module_0009.jit_step.fusion_module-post-lowering.mlir`.
_OF_A_DUMP = re.compile(r"^module_\d+\.")
_SUFFIXES = (".mlir", ".stablehlo", ".bytecode", ".hlo", ".hlo.pb", ".hlo.txt")
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


@dataclass
class Source:
    """A path that holds programs, as `find_programs` knows it.

    `kind` is `stablehlo`, `hlo-text`, `hlo-proto`, `capture` or `folder`. What was read to know that is kept: the
    message of a proto, the files of a folder.
    """

    path: Path
    kind: str
    message: hlo_pb2.HloModuleProto | None = None
    files: list[Path] = field(default_factory=list)


def find_programs(path: Path) -> Source | None:
    """What a path holds, by content; None where that is no program (but a script, say, or a run with its captures).

    Raises `TpuprofError` where the file cannot be read, or is an archive that is cut.
    """
    if path.is_dir():
        return _find_in_folder(path)
    if not path.is_file() or path.suffix == ".py":
        return None
    with reading(path, _A_PROGRAM):
        return _find_in_file(path)


def _find_in_folder(folder: Path) -> Source | None:
    files = files_below(folder)
    if any(PROFILE_SUFFIX in each.name for each in files):
        return None
    programs = [each for each in files if _is_program(each.name)]
    return Source(folder, "folder", files=sorted(programs)) if programs else None


def _is_program(name: str) -> bool:
    if _OF_A_DUMP.match(name):
        return _DUMPED.match(name) is not None
    return _DUMPED.match(name) is not None or name.removesuffix(".gz").endswith(_SUFFIXES)


def _find_in_file(path: Path) -> Source | None:
    start = sniff.unpacked_head(path)
    if start.startswith(_BYTECODE) or _MLIR_TEXT.search(start):
        return Source(path, "stablehlo")
    if _HLO_TEXT.search(start):
        return Source(path, "hlo-text")
    if _BINARY.search(start) and sniff.sniff(path) in (sniff.XPLANE, sniff.XPLANE_GZ):
        return Source(path, "capture")
    if ".pb" in path.suffixes or path.suffix == ".hlo":
        try:
            return Source(path, "hlo-proto", parse_module_proto(sniff.unpacked(path)))
        except TpuprofError:
            pass
    # Empty or damaged: its reader says so.
    return Source(path, "capture") if path.name.endswith(PROFILE_SUFFIXES) else None


def read_programs(
    source: Source, options: CompileOptions, stage: str = BEFORE, *, to_compile: bool = True
) -> list[Program]:
    """All programs of a source, the largest first; of a dump those before or after optimization.

    Where they are not `to_compile`, HLO text that no jaxlib here reads is read without one: its proto is empty. Raises
    `TpuprofError` where a program cannot be read.
    """
    path, kind = source.path, source.kind
    if source.message is not None:
        found = [_of_message(path, source.message, kind, _name(path))]
    elif kind == "folder":
        files = _of_stage(source.files, stage)
        found = [
            each
            for file in files
            for each in read_programs(need_programs(file), options, to_compile=to_compile)
        ]
    elif kind == "capture":
        found = _of_capture(path)
    else:
        found = [_converted(path, kind, options, to_compile)]
    return sorted(found, key=lambda each: -sum(1 for _ in each.module.instructions()))


def need_programs(path: Path) -> Source:
    """As `find_programs`; raises `TpuprofError` where there is no program."""
    found = find_programs(path)
    if found is None:
        raise TpuprofError(
            Code.NO_TRACE, f"{path} holds no program.",
            "Give StableHLO (text or bytecode), HLO (text or proto), an --xla_dump_to folder, or an .xplane.pb file.",
        )  # fmt: skip
    return found


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
        if done is None or done.returncode or not made.is_file():
            return False
        program.module = parse_hlo_text(made.read_text("utf-8", "replace"))
    return not _lacks_windows(program.module)


def convert_all(paths: list[Path], options: CompileOptions) -> None:
    """Write files of StableHLO as HLO protos beside them (`NAME.hlo.pb`); raises `TpuprofError` if one is not."""
    with tempfile.TemporaryDirectory(prefix="tpuprof-program-") as name:
        listed = Path(name) / "paths.json"
        listed.write_text(json.dumps([str(each) for each in paths]), "utf-8")
        done = _worker(["--convert-all", str(listed)], options)
    if done is None or done.returncode:
        reason = "it took too long" if done is None else _reason(done)
        failed = {str(paths[0]): reason}
    else:
        failed = json.loads(done.stdout.strip().splitlines()[-1])
    if failed:
        reason = next(iter(failed.values()))
        raise TpuprofError(
            Code.CORRUPT, f"{len(failed)} program(s) that the script ran cannot be read: {reason[:300]}",
            "The installed jaxlib may be older than the script's framework: install a newer jax beside tpuprof.",
        )  # fmt: skip


def _lacks_windows(module: HloModule) -> bool:
    return any(
        each.opcode == "convolution" and "dim_labels" not in each.attributes for each in module.instructions()
    )


def _worker(arguments: list[str], options: CompileOptions) -> subprocess.CompletedProcess[str] | None:
    """What a worker process did; None where it was stopped because it took too long."""
    command = [options.python, "-m", "tpuprof.preflight.worker", *arguments]
    try:
        return subprocess.run(
            command,
            env=options.variables(),
            capture_output=True,
            text=True,
            timeout=_CONVERT_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None


def _as_text(path: Path) -> Program | None:
    """A program from its HLO text alone; None where the text is not whole."""
    text = _read(path).decode("utf-8", "replace")
    module = parse_hlo_text(text)
    names = {each.name for each in module.instructions()}
    whole = text.rstrip().endswith("}") and len(module.entry) > 0
    if not whole or not all(
        set(each.operands) <= names and set(each.called_names()) <= module.computations.keys()
        for each in module.instructions()
    ):
        return None
    stated = module.attributes.get("num_partitions", "")
    partitions = int(stated) if stated.isdigit() else 1
    return Program(_name(path), path, "hlo-text", b"", module, max(partitions, 1))


def _unreadable(path: Path, kind: str, reason: str) -> TpuprofError:
    if _NO_JAX in reason:
        return TpuprofError(
            Code.MISSING_EXTRA, f"{path}: {_KINDS[kind]} is read with jaxlib, which is not installed.",
            "pip install 'tpuprof[preflight]'",
        )  # fmt: skip
    return TpuprofError(
        Code.CORRUPT, f"{path}: the {_KINDS[kind]} cannot be read: {reason[:300]}",
        "Check that it is whole, and written by a version that the installed jaxlib reads.",
    )  # fmt: skip


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Why a worker failed: the parser's own word on the place where there is one, else the last line."""
    lines = [each.strip() for each in done.stderr.splitlines() if each.strip()]
    stated = [each for each in lines if "error: " in each]
    return (stated or lines or [f"exit {done.returncode}"])[-1]


def to_graph(program: Program, number: int = 0) -> Graph:
    """The program as a graph to compile."""
    message = hlo_pb2.HloModuleProto.FromString(program.proto)
    graph = graph_of_module(message, number, program.partitions)
    graph.key = hashlib.sha256(program.proto).hexdigest()[:32]
    return graph


def _of_stage(files: list[Path], stage: str) -> list[Path]:
    """A folder's files to read: of a dump each module once, of that stage where it is there."""
    dumped: dict[tuple[Path, str], Path] = {}
    others = []
    for path in files:
        found = _DUMPED.match(path.name)
        if found is None:
            others.append(path)
            continue
        key = (path.parent, found["module"])
        if key not in dumped or (found["stage"] == stage and _stage(dumped[key]) != stage):
            dumped[key] = path
    return [*others, *dumped.values()]


def _stage(path: Path) -> str:
    found = _DUMPED.match(path.name)
    return found["stage"] if found else ""


def _name(path: Path) -> str:
    """What a file's program is called: of a dump the part before the stage, else the part before the first dot."""
    found = _DUMPED.match(path.name)
    return path.name[: found.start("stage")].rpartition(".")[0] if found else path.name.split(".")[0]


def _read(path: Path) -> bytes:
    with reading(path, _A_PROGRAM):
        return sniff.unpacked(path)


def _of_message(
    path: Path, message: hlo_pb2.HloModuleProto, kind: str, name: str, partitions: int = 0
) -> Program:
    module = from_proto(message)
    return Program(
        name, path, kind, message.SerializeToString(), module, partitions or partitions_of(message)
    )


def _of_capture(path: Path) -> list[Program]:
    from tpuprof.decode.load import load
    from tpuprof.model.compile.hlo_metadata import hlo_protos

    trace = load(path)
    found = [_of_message(path, parse_module_proto(data), "capture", name) for name, data in hlo_protos(trace)]
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


def _converted(path: Path, kind: str, options: CompileOptions, to_compile: bool) -> Program:
    """A program that jaxlib reads, as an HLO proto; in a process of its own, since the input is anyone's."""
    with tempfile.TemporaryDirectory(prefix="tpuprof-program-") as name:
        source, made = Path(name) / "program", Path(name) / "program.hlo.pb"
        source.write_bytes(_read(path))
        done = _worker(["--convert", kind, str(source), str(made)], options)
        if done is None:
            raise TpuprofError(
                Code.TOO_LARGE, f"{path}: reading the {_KINDS[kind]} was stopped after {_CONVERT_LIMIT_S} s.",
                "Give the program as an HLO proto, or a smaller one.",
            )  # fmt: skip
        if done.returncode or not made.is_file():
            plain = None if to_compile or kind != "hlo-text" else _as_text(path)
            if plain is not None:
                return plain
            why = _reason(done)
            raise _unreadable(
                path, kind, why if to_compile or kind != "hlo-text" or _NO_JAX not in why else _NOT_WHOLE
            )
        partitions = int(json.loads(done.stdout.strip().splitlines()[-1])["partitions"])
        message = parse_module_proto(made.read_bytes())
        program = _of_message(path, message, kind, _name(path), max(partitions, 1))
    if kind == "hlo-text":
        # The text's own reading keeps the schedule and the compiler's estimates.
        program.module = parse_hlo_text(_read(path).decode("utf-8", "replace"))
    return program
