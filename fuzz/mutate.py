"""Damages real and built files in many ways, and checks that each is analyzed or refused: exit status 0 or 2, no other.

usage: python fuzz/mutate.py [analyze|chrome|hlo|all] [--seconds S] [--count N] [--seed N]

Half of the mutations change bytes. The others change values inside the file's own structure, so that it still reads
and what it says is absurd. A finding is any exception that is no `TpuprofError` of the input, and whatever ends the
process. Its input is kept beside this file as `crash-*`.
"""

from __future__ import annotations

import argparse
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

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT)]

from changes import changed_bytes, changed_json, changed_message  # noqa: E402

# Memory of the process that reads: more than this of a damaged file is a finding (bytes).
MEMORY = 4 << 30
# Processor time that one input may take (seconds): the machine may be busy.
LONGEST = 60.0


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
    """All of `tpuprof analyze`: read, analyze, and write as text, JSON, Markdown and HTML."""
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
    """`analyzed`, `refused`, or the traceback of what should not have happened."""
    from tpuprof.errors import Code, TpuprofError

    try:
        TARGETS[target][1](data, folder)
    except TpuprofError as error:
        if error.code in (Code.INTERNAL, Code.OUT_OF_MEMORY):
            return traceback.format_exc()
        return "refused"
    except BaseException:
        return traceback.format_exc()
    return "analyzed"


def run(
    target: str, seed: int, seconds: float, count: int, *, say: Callable[[str], None] = print
) -> list[str]:
    """Try so many inputs or so long; returns what was found, a text each."""
    rng = random.Random(seed)
    until = time.monotonic() + seconds
    tally = {"analyzed": 0, "refused": 0}
    found: list[str] = []
    slowest = 0.0
    cases = TARGETS[target][0](rng)
    with tempfile.TemporaryDirectory(prefix="tpuprof-fuzz-") as folder:
        last = Path(folder) / "last"
        while sum(tally.values()) + len(found) < count and time.monotonic() < until:
            name, data = next(cases)
            last.write_bytes(data)
            begun = time.process_time()
            said = outcome(target, data, Path(folder))
            took = time.process_time() - begun
            slowest = max(slowest, took)
            if took > LONGEST:
                said = f"it took {took:.0f} s of a processor"
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
    say(f"{target}: {counts}, {len(found)} found; slowest {slowest:.1f} s of a processor")
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
