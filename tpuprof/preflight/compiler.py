"""Compiles graphs for targets in worker processes, with limits on time and memory, a cache, and progress."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpuprof.child_group import end_group
from tpuprof.errors import Code, TpuprofError
from tpuprof.preflight import adapter
from tpuprof.preflight.graphs import Graph
from tpuprof.preflight.targets import Target

CACHE_VERSION = 2
# A step of a 48-layer loop takes a minute; half an hour is beyond what a compile of one chip's program has taken.
TIME_LIMIT_S = 1800.0
# Resident memory at which a compile is ended (bytes): the compiler of a large program takes a few GiB.
MEMORY_LIMIT = 16 << 30
# Programs of at most so many bytes compile in a tenth of a second, and the compiler's start takes two: from so many of
# them on they share processes, so many in each.
QUICK_BYTES, FEWEST_TOGETHER, MOST_TOGETHER = 100_000, 5, 100
_POLL_S = 0.2
_FLAG_VARIABLES = ("LIBTPU_INIT_ARGS", "XLA_FLAGS")
Progress = Callable[[str], None]


@dataclass
class Compiled:
    """What came of one compile. `status` is compiled, out-of-memory, refused, unknown-target, time-limit,
    memory-limit or crashed; `hlo_text` and `hlo_proto` are the optimized program, empty unless compiled;
    `kernel_flops` are the products in its Pallas kernels' code.
    """

    graph: Graph
    target: Target
    status: str
    seconds: float
    memory: dict[str, int] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    error: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    cached: bool = False
    hlo_text: str = ""
    hlo_proto: bytes = b""
    kernel_flops: dict[str, int] = field(default_factory=dict)


@dataclass
class CompileOptions:
    """How to compile: extra environment (flags), limits, workers at once, cache folder (None: no cache)."""

    environment: dict[str, str] = field(default_factory=dict)
    time_limit_s: float = TIME_LIMIT_S
    memory_limit: int = MEMORY_LIMIT
    workers: int = 1
    cache: Path | None = None
    python: str = sys.executable

    def variables(self) -> dict[str, str]:
        """The worker's whole environment."""
        env = {**os.environ, **self.environment, **adapter.worker_environment()}
        # The worker must import this very tpuprof, also when another Python runs it.
        root = str(Path(__file__).resolve().parents[2])
        env["PYTHONPATH"] = os.pathsep.join(part for part in (root, env.get("PYTHONPATH", "")) if part)
        return env

    def flags(self) -> dict[str, str]:
        """The flags the compiler reads."""
        env = self.variables()
        return {name: env[name] for name in _FLAG_VARIABLES if env.get(name)}


def default_cache() -> Path:
    """The user's cache folder for compiled results."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("tpuprof")) / "preflight"


def compile_all(
    jobs: list[tuple[Graph, Target]], options: CompileOptions, progress: Progress
) -> list[Compiled]:
    """Compile each graph for its target, several at once where `options.workers` says so, in the jobs' order."""
    versions = worker_versions(options)
    if not versions["libtpu"] or not versions["jax"]:
        raise TpuprofError(
            Code.MISSING_EXTRA,
            "Preflight needs jax and libtpu, which are not installed.",
            "pip install 'tpuprof[xla]'.",
        )
    started = time.monotonic()
    spent: list[float] = []
    stop = threading.Event()
    quick = _compile_quick(jobs, options, versions, stop, progress)

    def one(number: int) -> Compiled:
        job = jobs[number]
        if number in quick:
            return quick[number]
        result = _compile_one(job[0], job[1], options, versions, stop)
        if not result.cached:
            spent.append(result.seconds)
        done = len(spent)
        left = len(jobs) - len(quick) - done
        estimate = (
            f", about {left * sum(spent) / done / options.workers:.0f} s left" if spent and left > 0 else ""
        )
        how = "from cache" if result.cached else f"{result.seconds:.1f} s"
        progress(
            f"{job[1].name}: graph {job[0].number} {result.status} ({how}; "
            f"{time.monotonic() - started:.0f} s so far{estimate})"
        )
        return result

    pool = ThreadPoolExecutor(max(1, options.workers))
    try:
        results = [pool.submit(one, number) for number in range(len(jobs))]
        # What ends one job ends all, also those that come before it.
        wait(results, return_when=FIRST_EXCEPTION)
        for each in results:
            if each.done():
                each.result()
        return [each.result() for each in results]
    finally:
        # After Ctrl-C the compilers end now, not when they are done.
        stop.set()
        pool.shutdown(cancel_futures=True)


def _compile_quick(
    jobs: list[tuple[Graph, Target]],
    options: CompileOptions,
    versions: dict[str, str],
    stop: threading.Event,
    progress: Progress,
) -> dict[int, Compiled]:
    """Results of small programs, by the job's place: many in one process. A crash leaves the rest to be done alone."""
    found: dict[int, Compiled] = {}
    small = [number for number, (graph, _) in enumerate(jobs) if len(graph.proto) <= QUICK_BYTES]
    if len(small) < FEWEST_TOGETHER:
        return found
    for number in small:
        entry = _entry(*jobs[number], options, versions)
        cached = _cached(entry, *jobs[number]) if entry is not None else None
        if cached is not None:
            found[number] = cached
    missing = [number for number in small if number not in found]
    for first in range(0, len(missing), MOST_TOGETHER):
        chunk = missing[first : first + MOST_TOGETHER]
        with tempfile.TemporaryDirectory(prefix="tpuprof-preflight-") as name:
            folders = {number: Path(name) / str(number) for number in chunk}
            for number, folder in folders.items():
                folder.mkdir()
                _write_job(folder, *jobs[number])
            _run_jobs(list(folders.values()), Path(name) / "log.txt", options, stop)
            for number, folder in folders.items():
                if (folder / "result.json").is_file():
                    found[number] = _kept(folder, *jobs[number], options, versions)
        progress(f"{len(found)} of {len(small)} small programs compiled")
    return found


def known_targets(targets: list[Target], options: CompileOptions) -> list[bool]:
    """Which of these slices the installed libtpu describes."""
    command = probe_command(targets, options)
    done = subprocess.run(
        command, env=options.variables(), capture_output=True, text=True, timeout=300, check=False
    )
    try:
        return [bool(each) for each in json.loads(done.stdout.strip().splitlines()[-1])]
    except (ValueError, IndexError) as error:
        raise TpuprofError(
            Code.PREFLIGHT_COMPILE, f"libtpu's compiler does not start: {done.stderr.strip()[-300:]}",
            "Check `tpuprof doctor`.",
        ) from error  # fmt: skip


def probe_command(targets: list[Target], options: CompileOptions) -> list[str]:
    """The command that starts libtpu and asks it for these slices."""
    names = json.dumps([(each.topology, each.options) for each in targets])
    return [options.python, "-m", "tpuprof.preflight.worker", "--probe", names]


def worker_versions(options: CompileOptions) -> dict[str, str]:
    """Versions of the compiler's packages in the Python that runs the workers."""
    if options.python == sys.executable:
        return adapter.versions(options.variables().get(adapter.LIBRARY, ""))
    code = "from tpuprof.preflight import adapter; import json; print(json.dumps(adapter.versions()))"
    done = subprocess.run(
        [options.python, "-c", code], env=options.variables(), capture_output=True, text=True, check=False
    )
    return dict(json.loads(done.stdout or '{"jax": "", "jaxlib": "", "libtpu": ""}'))


def cache_key(graph: Graph, target: Target, options: CompileOptions, versions: dict[str, str]) -> str:
    """Name of a compile's result: graph, slice, flags, versions, and the format of this cache."""
    parts = {
        "graph": graph.fingerprint, "topology": target.topology, "options": target.options, "version": CACHE_VERSION,
        "devices": target.devices, "flags": options.flags(), "versions": versions,
    }  # fmt: skip
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:40]


def _compile_one(
    graph: Graph, target: Target, options: CompileOptions, versions: dict[str, str], stop: threading.Event
) -> Compiled:
    entry = _entry(graph, target, options, versions)
    cached = _cached(entry, graph, target) if entry is not None else None
    if cached is not None:
        return cached
    with tempfile.TemporaryDirectory(prefix="tpuprof-preflight-") as name:
        folder = Path(name)
        result = _run_worker(folder, graph, target, options, stop)
        return result or _kept(folder, graph, target, options, versions)


def _entry(graph: Graph, target: Target, options: CompileOptions, versions: dict[str, str]) -> Path | None:
    """Where a result is in the cache, or will be; None without a cache."""
    return options.cache / cache_key(graph, target, options, versions) if options.cache else None


def _cached(entry: Path, graph: Graph, target: Target) -> Compiled | None:
    if not (entry / "result.json").is_file():
        return None
    try:
        return _load(entry, graph, target, cached=True)
    except (OSError, ValueError, KeyError):
        shutil.rmtree(entry, ignore_errors=True)
        return None


def _kept(
    folder: Path, graph: Graph, target: Target, options: CompileOptions, versions: dict[str, str]
) -> Compiled:
    """A worker's result, put into the cache where it holds for the next time."""
    found = _load(folder, graph, target, cached=False)
    entry = _entry(graph, target, options, versions)
    if entry is not None and found.status in ("compiled", "out-of-memory"):
        _store(folder, entry)
    return found


def _run_worker(
    folder: Path, graph: Graph, target: Target, options: CompileOptions, stop: threading.Event
) -> Compiled | None:
    """Run one worker to its end; a result only where it was stopped or crashed."""
    _write_job(folder, graph, target)
    started = time.monotonic()
    stopped, code = _run_jobs([folder], folder / "log.txt", options, stop)
    seconds = time.monotonic() - started
    if stopped:
        return Compiled(graph, target, stopped, seconds, error=_limit_text(stopped, options))
    if not (folder / "result.json").is_file():
        text = (folder / "log.txt").read_text("utf-8", "replace")
        return Compiled(graph, target, "crashed", seconds, error=_crash_text(code, text))
    return None


def _write_job(folder: Path, graph: Graph, target: Target) -> None:
    (folder / "graph.hlo.pb").write_bytes(graph.proto)
    job = {
        "folder": str(folder), "hlo": str(folder / "graph.hlo.pb"), "topology": target.topology,
        "topology_options": target.options, "devices": graph.devices(target.devices), "spmd": graph.spmd,
        "propagate": graph.propagate, "donors": graph.donors,
    }  # fmt: skip
    (folder / "job.json").write_text(json.dumps(job), "utf-8")


def _run_jobs(
    folders: list[Path], log_path: Path, options: CompileOptions, stop: threading.Event
) -> tuple[str, int]:
    """Run one worker on the jobs in these folders: the limit it broke (empty without), and its exit status."""
    command = [
        options.python,
        "-m",
        "tpuprof.preflight.worker",
        *(str(each / "job.json") for each in folders),
    ]
    started = time.monotonic()
    with log_path.open("wb") as log:
        # In a session of its own: Ctrl-C in a terminal goes to tpuprof, which ends the worker.
        worker = subprocess.Popen(
            command, env=options.variables(), stdout=log, stderr=log, start_new_session=True
        )
        try:
            stopped = _watch(worker, started, options, stop)
        finally:
            if worker.returncode is None:
                end_group(worker)
    return stopped, worker.returncode


def _crash_text(code: int, log: str) -> str:
    if code < 0:
        hint = " (often: the machine has too little memory)" if -code == signal.SIGKILL else ""
        return f"the compiler was ended by {signal.Signals(-code).name}{hint}: {log.strip()[-2000:]}"
    return f"exit {code}: {log.strip()[-2000:]}"


def _watch(
    worker: subprocess.Popen[bytes], started: float, options: CompileOptions, stop: threading.Event
) -> str:
    """Wait for a worker; the limit it broke, empty where it ended by itself."""
    while True:
        try:
            worker.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            if stop.is_set():
                return "stopped"
            if time.monotonic() - started > options.time_limit_s:
                return "time-limit"
            if _resident(worker.pid) > options.memory_limit:
                return "memory-limit"
        else:
            return ""


def _limit_text(stopped: str, options: CompileOptions) -> str:
    if stopped == "stopped":
        return "tpuprof was interrupted"
    if stopped == "time-limit":
        return f"the compiler was stopped after {options.time_limit_s:.0f} s (--time-limit)"
    return (
        f"the compiler was stopped at {options.memory_limit / (1 << 30):.1f} GiB of memory (--memory-limit)"
    )


def _resident(pid: int) -> int:
    """Resident bytes of a process, 0 where the system does not tell."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _load(folder: Path, graph: Graph, target: Target, cached: bool) -> Compiled:
    result: dict[str, Any] = json.loads((folder / "result.json").read_text("utf-8"))
    found = Compiled(graph, target, result["status"], result.get("compile_seconds", 0.0), cached=cached)
    found.memory, found.cost = result.get("memory", {}), result.get("cost", {})
    found.error, found.versions = result.get("error", ""), result.get("versions", {})
    found.kernel_flops = result.get("kernel_flops", {})
    if found.status == "compiled":
        found.hlo_text = gzip.decompress((folder / "optimized.hlo.txt.gz").read_bytes()).decode(
            "utf-8", "replace"
        )
        found.hlo_proto = gzip.decompress((folder / "optimized.hlo.pb.gz").read_bytes())
    return found


def _store(folder: Path, entry: Path) -> None:
    """Put a result into the cache in one move, so that another process never sees half of it."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=entry.parent, prefix=".new-"))
    for name in ("result.json", "optimized.hlo.txt.gz", "optimized.hlo.pb.gz"):
        if (folder / name).is_file():
            shutil.copy(folder / name, staging / name)
    try:
        staging.rename(entry)
    except OSError:
        shutil.rmtree(staging, ignore_errors=True)
