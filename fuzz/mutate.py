"""Damages real and built files in many ways, and checks that each is analysed or refused: exit status 0 or 2, no other.

usage: python fuzz/mutate.py [analyze|chrome|hlo|all] [--seconds S] [--count N] [--seed N]

Half of the mutations change bytes. The others change values inside the file's own structure, so that it still reads
and what it says is absurd. A finding is any exception that is no `TpuprofError` of the input, and whatever ends the
process. Its input is kept beside this file as `crash-*`.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import multiprocessing
import random
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

# Memory of the process that reads: more than this of a damaged file is a finding (bytes).
MEMORY = 4 << 30
# Longest that one input may take (seconds); the machine may be busy.
LONGEST = 60.0
# Places of one input that are changed at most.
CHANGES = 8
_NUMBERS = (
    0,
    1,
    -1,
    2,
    127,
    128,
    255,
    2**31 - 1,
    -(2**31),
    2**31,
    2**62,
    -(2**62),
    2**63 - 1,
    -(2**63),
    10**15,
)
_REALS = (0.0, -0.0, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"))
_TEXTS = (
    "",
    "\0",
    "é" * 9,
    "{",
    "%while.1 = (",
    "f32[",
    "s64[99999999999]{0}",
    "/device:TPU:0",
    "Stream #1",
    "_r",
    "(1)",
)
_VALUES = (None, True, -1, 1.5, 1e300, 10**30, "", "x" * 300, [], {}, [[]], {"a": {}}, "Infinity", "\ud800")


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """A file with some of its bytes changed, moved, lost or doubled."""
    out = bytearray(data)
    for _ in range(rng.randint(1, CHANGES)):
        at = rng.randrange(len(out) + 1)
        size = min(rng.choice((1, 2, 4, 16, 200, 5000)), len(out) - at)
        match rng.randrange(7):
            case 0 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(out):
                out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del out[at : at + size]
            case 3:
                out[at:at] = out[at : at + size]
            case 4:
                out[at:at] = rng.randbytes(min(size, 16))
            case 5:
                to = rng.randrange(len(out) + 1)
                out[to : to + size] = out[at : at + size]
            case 6 if rng.random() < 0.3:
                del out[at:]
            case _:
                pass
    return bytes(out)


def changed_message(message: Any, rng: random.Random) -> None:
    """Change some fields of a protobuf message, at any depth."""
    for _ in range(rng.randint(1, CHANGES)):
        _change_field(_any_message(message, rng), rng)


def _any_message(message: Any, rng: random.Random) -> Any:
    """A message somewhere below: deeper ones are likelier, since there are more of them."""
    while True:
        below = []
        for field, value in message.ListFields():
            if field.type != field.TYPE_MESSAGE:
                continue
            if field.message_type.GetOptions().map_entry:
                below += [value[key] for key in value if hasattr(value[key], "ListFields")]
            else:
                below += list(value) if _repeated(field) else [value]
        if not below or rng.random() < 0.15:
            return message
        message = rng.choice(below)


def _change_field(message: Any, rng: random.Random) -> None:
    fields = [field for field in message.DESCRIPTOR.fields if field.type != field.TYPE_MESSAGE]
    groups = [field for field, _ in message.ListFields() if field.type == field.TYPE_MESSAGE]
    if groups and (not fields or rng.random() < 0.3):
        _change_group(message, rng.choice(groups), rng)
        return
    if not fields:
        return
    field = rng.choice(fields)
    if rng.random() < 0.15:
        message.ClearField(field.name)
        return
    try:
        value = _value(field, rng)
        if _repeated(field):
            held = getattr(message, field.name)
            if held and rng.random() < 0.7:
                held[rng.randrange(len(held))] = value
            else:
                held.append(value)
        else:
            setattr(message, field.name, value)
    except (ValueError, TypeError):
        message.ClearField(field.name)


def _change_group(message: Any, field: Any, rng: random.Random) -> None:
    """Drop or double one of several messages, or the only one."""
    held = getattr(message, field.name)
    if field.message_type.GetOptions().map_entry or not _repeated(field):
        message.ClearField(field.name)
    elif rng.random() < 0.5:
        del held[rng.randrange(len(held))]
    else:
        held.append(held[rng.randrange(len(held))])


def _repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def _value(field: Any, rng: random.Random) -> Any:
    if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return rng.choice(_REALS)
    if field.cpp_type == field.CPPTYPE_STRING:
        text = rng.choice(_TEXTS)
        return text.encode() if field.type == field.TYPE_BYTES else text
    if field.cpp_type == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    return rng.choice(_NUMBERS)


def changed_json(value: Any, rng: random.Random) -> Any:
    """Change some values of a JSON document, at any depth."""
    for _ in range(rng.randint(1, CHANGES)):
        at = value
        while isinstance(at, (dict, list)) and at:
            key = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
            if not isinstance(at[key], (dict, list)) or not at[key] or rng.random() < 0.05:
                if rng.random() < 0.15:
                    del at[key]
                else:
                    at[key] = copy.deepcopy(rng.choice((*_VALUES, *_NUMBERS, *_TEXTS)))
                break
            at = at[key]
    return value


def xspaces() -> list[tuple[str, bytes]]:
    """Files of the profiler: the samples, and traces built by the tests."""
    found = [
        (str(path.relative_to(ROOT)), path.read_bytes())
        for path in sorted(ROOT.glob("sample_traces/*/plugins/**/*.xplane.pb"))
    ]
    return found + [(f"built {name}", data) for name, data in built()]


def built() -> Iterator[tuple[str, bytes]]:
    """Small traces of the tests: one host of two, hostile names, few events, a GPU, one without steps."""
    from tests.dashboard.conftest import empty_trace, hostile_trace, training_trace
    from tests.model.test_gpu import gpu_trace
    from tests.model.test_hosts import host

    makers = (empty_trace, hostile_trace, training_trace, gpu_trace, lambda: host((60, 60)))
    for number, make in enumerate(makers):
        yield str(number), make().to_bytes()


def _xspace_cases(rng: random.Random) -> Iterator[tuple[str, bytes]]:
    from tpuprof.decode import xplane_pb2

    seeds = xspaces()
    while True:
        name, data = rng.choice(seeds)
        if rng.random() < 0.5:
            yield name, changed_bytes(data, rng)
        else:
            message = xplane_pb2.XSpace.FromString(data)
            changed_message(message, rng)
            yield name, message.SerializeToString()


def _chrome_cases(rng: random.Random) -> Iterator[tuple[str, bytes]]:
    from tests.model.test_gpu import kineto

    seeds = [("kineto", json.dumps(kineto()).encode())]
    seeds += [(name, _exported(data)) for name, data in xspaces() if len(data) < 900_000]
    while True:
        name, data = rng.choice(seeds)
        changed = changed_bytes(data, rng)
        if rng.random() < 0.5:
            changed = json.dumps(changed_json(json.loads(data), rng)).encode("utf-8", "surrogatepass")
        yield name, gzip.compress(changed, 1) if rng.random() < 0.3 else changed


def _exported(data: bytes) -> bytes:
    """The Chrome JSON of a trace."""
    from tpuprof.decode.xplane import parse
    from tpuprof.export.chrome_json import chrome_json
    from tpuprof.model.timeline import build_host

    host = build_host(parse(data, "seed"), "host")
    return gzip.decompress(chrome_json(host, 0, 1 << 62)[0])


def _hlo_cases(rng: random.Random) -> Iterator[tuple[str, bytes]]:
    from tpuprof.decode.hlo_proto import parse_module_proto

    seeds = [
        (path.name, path.read_bytes())
        for path in sorted(ROOT.glob("sample_traces/*/tpuprof/graphs/*.hlo.pb"))
    ]
    while True:
        name, data = rng.choice(seeds)
        if rng.random() < 0.5:
            yield name, changed_bytes(data, rng)
        else:
            message = parse_module_proto(data)
            changed_message(message, rng)
            yield name, message.SerializeToString()


def _analyze(data: bytes, folder: Path) -> None:
    """All of `tpuprof analyze`: read, analyse, and write as text, JSON, Markdown and HTML."""
    import io

    from rich.console import Console

    from tpuprof.analysis.analyze import analyze_run
    from tpuprof.render.html import render_html
    from tpuprof.render.markdown import render_markdown
    from tpuprof.render.text import render
    from tpuprof.report.as_json import to_json

    path = folder / "vm.xplane.pb"
    path.write_bytes(data)
    report = analyze_run(path)
    json.loads(to_json(report))
    render(report, Console(file=io.StringIO(), width=100))
    render_html(report)
    render_markdown(report)


def _chrome(data: bytes, folder: Path) -> None:
    from tpuprof.analysis.analyze import analyze_run
    from tpuprof.report.as_json import to_json

    path = folder / "vm.trace.json"
    path.write_bytes(data)
    to_json(analyze_run(path))


def _hlo(data: bytes, _folder: Path) -> None:
    """All that is asked of a program: its shapes, loops, memory and metadata."""
    from tpuprof.decode.hlo_proto import read_hlo_proto
    from tpuprof.decode.hlo_shape import parse_shape

    module = read_hlo_proto(data)
    fused = module.fused_names
    for computation in module.computations.values():
        _ = computation.root, computation.parameters(), computation.name in fused
        for instruction in computation:
            _ = instruction.source, instruction.estimated_cycles, instruction.custom_call_target
            _ = instruction.called_names()
            parse_shape(str(instruction.shape))
            if instruction.opcode == "while":
                module.trip_count(instruction, computation)


TARGETS: dict[
    str, tuple[Callable[[random.Random], Iterator[tuple[str, bytes]]], Callable[[bytes, Path], None]]
] = {
    "analyze": (_xspace_cases, _analyze),
    "chrome": (_chrome_cases, _chrome),
    "hlo": (_hlo_cases, _hlo),
}


def outcome(target: str, data: bytes, folder: Path) -> str:
    """`analysed`, `refused`, or the traceback of what should not have happened."""
    from tpuprof.errors import Code, TpuprofError

    try:
        TARGETS[target][1](data, folder)
    except TpuprofError as error:
        if error.code in (Code.INTERNAL, Code.OUT_OF_MEMORY):
            return traceback.format_exc()
        return "refused"
    except BaseException:
        return traceback.format_exc()
    return "analysed"


def run(
    target: str, seed: int, seconds: float, count: int, *, say: Callable[[str], None] = print
) -> list[str]:
    """Try so many inputs or so long; returns what was found, a text each."""
    rng = random.Random(seed)
    until = time.monotonic() + seconds
    tally = {"analysed": 0, "refused": 0}
    found: list[str] = []
    slowest = 0.0
    cases = TARGETS[target][0](rng)
    with tempfile.TemporaryDirectory(prefix="tpuprof-fuzz-") as folder:
        last = Path(folder) / "last"
        while sum(tally.values()) + len(found) < count and time.monotonic() < until:
            name, data = next(cases)
            last.write_bytes(data)
            begun = time.monotonic()
            said = outcome(target, data, Path(folder))
            took = time.monotonic() - begun
            slowest = max(slowest, took)
            if took > LONGEST:
                said = f"it took {took:.0f} s"
            if said in tally:
                tally[said] += 1
                continue
            kind = said.strip().splitlines()[-1]
            if not any(kind == each.strip().splitlines()[-1] for each in found):
                kept = HERE / f"crash-{target}-{seed}-{len(found)}"
                kept.write_bytes(data)
                say(f"FOUND in {target} ({name}, kept as {kept.name}):\n{said}")
            found.append(said)
    counts = ", ".join(f"{number} {what}" for what, number in tally.items())
    say(f"{target}: {counts}, {len(found)} found; slowest {slowest:.1f} s")
    return found


def _in_a_process(target: str, seed: int, seconds: float, count: int) -> bool:
    """Whether one target, run in a process of its own, found nothing; a signal that ends it is a finding."""

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        sys.exit(1 if run(target, seed, seconds, count, say=lambda text: print(text, flush=True)) else 0)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    if process.exitcode not in (0, 1):
        print(
            f"FOUND in {target}: the process ended with status {process.exitcode} (seed {seed})", flush=True
        )
    return process.exitcode == 0


def main() -> int:
    """Run what was asked for; status 1 where anything was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("target", nargs="?", default="all", choices=[*TARGETS, "all"])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--count", type=int, default=1 << 60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    targets = list(TARGETS) if options.target == "all" else [options.target]
    clean = [_in_a_process(target, options.seed, options.seconds, options.count) for target in targets]
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main())
