"""Compiles one graph for one slice: `python -m tpuprof.preflight.worker JOB.json`, a process for each compile.

Small graphs may share a process: then several jobs are named. Reads a job, writes `result.json`, `optimized.hlo.txt.gz`
and `optimized.hlo.pb.gz` into the job's folder. A compiler error is a result too; only a crash leaves none.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from tpuprof.preflight import adapter, barrier, mosaic
from tpuprof.preflight.memory import on_chip_shortage

RESULT = "result.json"
HLO_TEXT = "optimized.hlo.txt.gz"
HLO_PROTO = "optimized.hlo.pb.gz"
_ANY_SLICE = "v5e:2x2"
_MOSAIC_VERSION = re.compile(r"Unsupported version: expected <= (\d+) but got \d+")


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Compile as the job says; returns the result without raising for what the compiler refuses."""
    folder = Path(job["folder"])
    try:
        devices = adapter.describe_topology(job["topology"], job["topology_options"])[: job["devices"]]
    except Exception as error:
        return {"status": "unknown-target" if adapter.is_unknown(error) else "crashed", "error": str(error)}
    proto = Path(job["hlo"]).read_bytes()
    started = time.perf_counter()
    try:
        executable = adapter.compile_hlo(proto, devices, job["spmd"], job["propagate"], job["donors"])
    except Exception as error:
        seconds = time.perf_counter() - started
        text = str(error)
        on_chip = on_chip_shortage(text)
        status = "out-of-memory" if "RESOURCE_EXHAUSTED" in text and not on_chip else "refused"
        return {
            "status": status,
            "error": f"{on_chip}\n{text}" if on_chip else text,
            "compile_seconds": seconds,
            "trace": traceback.format_exc()[-4000:],
        }
    seconds = time.perf_counter() - started
    text, optimized = adapter.optimized_hlo(executable)
    (folder / HLO_TEXT).write_bytes(gzip.compress(text.encode(), 4))
    (folder / HLO_PROTO).write_bytes(gzip.compress(optimized, 4))
    return {
        "status": "compiled",
        "compile_seconds": seconds,
        "device_kind": devices[0].device_kind,
        "memory": adapter.memory_stats(executable),
        "cost": adapter.cost_analysis(executable),
        "kernel_flops": mosaic.all_products(text),
    }


def probe(names: list[tuple[str, dict[str, Any]]]) -> list[bool]:
    """Which slices the installed libtpu describes."""
    return [adapter.topology_known(name, options) for name, options in names]


def convert_all(paths: list[Path]) -> dict[str, str]:
    """Write files of StableHLO as HLO protos beside them (`NAME.hlo.pb`); why not, for those that cannot be read."""
    failed = {}
    for each in paths:
        try:
            proto, _ = adapter.to_hlo("stablehlo", each.read_bytes())
        except Exception as error:
            failed[str(each)] = (str(error).strip().splitlines() or [type(error).__name__])[0]
        else:
            each.with_name(f"{each.name}.hlo.pb").write_bytes(proto)
    return failed


def readable_mosaic() -> int | None:
    """The newest version of Mosaic that libtpu reads where the installed jax writes a newer one, else None."""
    devices = adapter.describe_topology(_ANY_SLICE, {})[:1]
    try:
        adapter.compile_hlo(adapter.smallest_kernel(), devices, False, [], [])
    except Exception as error:
        found = _MOSAIC_VERSION.search(str(error))
        if found is None:
            raise
        return int(found.group(1))
    return None


def _answer(question: str, given: list[str]) -> str:
    """What is asked of the compiler's packages beside a compile."""
    if question == "--mosaic":
        return json.dumps(readable_mosaic())
    if question == "--stand-in":
        return adapter.stand_in(sys.stdin.buffer.read())
    if question == "--convert-all":
        return json.dumps(convert_all([Path(each) for each in json.loads(Path(given[0]).read_text("utf-8"))]))
    if question == "--to-text":
        Path(given[1]).write_text(adapter.hlo_text(Path(given[0]).read_bytes()), "utf-8")
        return ""
    if question == "--convert":
        kind, source, made = given
        proto, partitions = adapter.to_hlo(kind, Path(source).read_bytes())
        Path(made).write_bytes(proto)
        return json.dumps({"partitions": partitions})
    return json.dumps(probe(json.loads(given[0])))


def main(arguments: list[str]) -> int:
    """Run job files; with `--probe`, `--mosaic`, `--convert` and the like answer on stdout what is asked."""
    barrier.end_with_parent()
    os.environ.update(adapter.worker_environment())
    if arguments[0].startswith("--"):
        answer = _answer(arguments[0], arguments[1:])
        if answer:
            sys.stdout.write(answer)
        return 0
    for each in arguments:
        job = json.loads(Path(each).read_text("utf-8"))
        result = {**run(job), "versions": adapter.versions(os.environ.get(adapter.LIBRARY, ""))}
        path = Path(job["folder"]) / RESULT
        path.with_suffix(".new").write_text(json.dumps(result), "utf-8")
        path.with_suffix(".new").replace(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
