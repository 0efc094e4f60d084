"""Runs one program in a copy of its folder, bare or under `tpuprof capture`, and reads what it printed."""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from runner.truth import HOME, Cure, Truth
from runner.warm import Nursery

ROOT = HOME.parent.parent
TIMEOUT_SECONDS = 420
# Steps that may compile, at a program's start.
_COMPILING = 3
# What a program prints about time differs between runs; all else must not.
_ABOUT_TIME = re.compile(
    r"ms per step|^seconds|runtime|_per_second|it/s|s/it|elapsed|[Rr]ate=|\bpid\b|\d\d:\d\d:\d\d"
)
_MEAN = re.compile(r"([0-9.]+) ms per step")
# The device has one core of its own, and the host the other: with more the device slows the host it runs beside.
_DEVICE = {
    "PJRT_DEVICE": "CPU",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
_DROPPED = ("XLA_", "PT_XLA_", "PJRT_", "CPU_NUM_DEVICES", "TPUPROF_", "PYTHONPATH", "LAZY_")


@dataclass
class Outcome:
    """What one run came to: its status (128 + N for signal N), what it printed, and its own clock."""

    status: int
    printed: list[str]
    messages: str
    mean_ms: float | None = None
    # Length of each step in seconds, in order, where the program prints it.
    seconds: list[float] = field(default_factory=list)
    wall_s: float = 0.0

    @property
    def step_ms(self) -> float | None:
        """A typical step: the median behind the first few, which compile; else the mean that was printed."""
        behind = self.seconds[_COMPILING:]
        return statistics.median(behind) * 1e3 if behind else self.mean_ms


@dataclass(frozen=True)
class Start:
    """How a program is started: its command, the folder it runs in (a copy of its own), and its environment."""

    command: list[str]
    folder: Path
    environment: Mapping[str, str]


def start_bare(truth: Truth, scratch: Path, cure: Cure | None = None) -> Start:
    """How the program is started as it is, or cured."""
    return Start(_command(truth), _copy(truth, scratch, cure), _environment(truth, cure))


def start_captured(truth: Truth, scratch: Path, run: Path) -> Start:
    """How the unchanged program is started under `tpuprof capture`."""
    folder = _copy(truth, scratch, None)
    shutil.rmtree(run, ignore_errors=True)
    capture = [sys.executable, "-m", "tpuprof", "capture", "-o", str(run), *truth.capture, "--"]
    return Start([*capture, *_command(truth)], folder, _environment(truth, None))


def bare(truth: Truth, scratch: Path, cure: Cure | None = None) -> Outcome:
    """Run the program as it is, or cured."""
    return _run(start_bare(truth, scratch, cure))


def bare_quick(truth: Truth, scratch: Path, cure: Cure | None = None) -> Outcome:
    """As `bare`, from a process that has imported torch_xla already, where the program is a plain script."""
    changes = {**truth.environment, **(cure.environment if cure else {})}
    if truth.command != ["python", "train.py"] or truth.needs or truth.cold:
        return bare(truth, scratch, cure)
    folder = _copy(truth, scratch, cure)
    began = time.perf_counter()
    status = _nursery().run(folder, changes)
    told = [(folder / name).read_text("utf-8", "replace") for name in ("out.txt", "err.txt")]
    return read(status, told[0], told[1], time.perf_counter() - began)


@functools.cache
def _nursery() -> Nursery:
    nursery = Nursery(_environment(None, None))
    atexit.register(nursery.close)
    return nursery


def bare_kept(truth: Truth, scratch: Path, place: Path, again: bool) -> Outcome:
    """The bare run of before, if the program is still the same and need not run `again`: tpuprof has no part in it."""
    key = fingerprint(truth)
    if place.is_file() and not again:
        told = json.loads(place.read_text("utf-8"))
        if told.pop("program") == key:
            return Outcome(**told)
    outcome = bare_quick(truth, scratch)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps({"program": key, **asdict(outcome)}, indent=1), "utf-8")
    return outcome


def profiled(truth: Truth, scratch: Path, run: Path) -> Outcome:
    """Run a program that profiles itself, and keep the profile that it wrote."""
    start = start_bare(truth, scratch)
    outcome = _run(start)
    shutil.rmtree(run, ignore_errors=True)
    if (start.folder / truth.own_profile).is_dir():
        shutil.copytree(start.folder / truth.own_profile, run)
    return outcome


def captured(truth: Truth, scratch: Path, run: Path) -> Outcome:
    """Run the unchanged program under `tpuprof capture`."""
    return _run(start_captured(truth, scratch, run))


def read(status: int, stdout: str, stderr: str, wall_s: float) -> Outcome:
    """What a run printed, taken apart."""
    lines = stdout.splitlines()
    means = [float(found[1]) for row in lines if (found := _MEAN.search(row))]
    seconds = [row.split()[1:] for row in lines if row.startswith("seconds ")]
    return Outcome(
        status if status >= 0 else 128 - status,
        [row for row in lines if not _ABOUT_TIME.search(row)],
        stderr,
        means[-1] if means else None,
        [float(each) for each in seconds[-1]] if seconds else [],
        wall_s,
    )


def _run(start: Start) -> Outcome:
    began = time.perf_counter()
    try:
        done = subprocess.run(
            start.command, cwd=start.folder, env=start.environment, capture_output=True, text=True,
            timeout=TIMEOUT_SECONDS, errors="replace", check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return Outcome(-1, [], f"did not end in {TIMEOUT_SECONDS} s\n{_text(late.stderr)}")
    return read(done.returncode, done.stdout, done.stderr, time.perf_counter() - began)


def _text(told: object) -> str:
    return told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told or "")


def _command(truth: Truth) -> list[str]:
    first, *others = truth.command
    return [sys.executable if first == "python" else first, *others]


def fingerprint(truth: Truth) -> str:
    """A hash of all files of the program and of how it is started."""
    files = sorted(
        path for path in (HOME / truth.name).rglob("*") if path.is_file() and path.suffix != ".pyc"
    )
    parts = [path.name.encode() + path.read_bytes() for path in files if path.name != "truth.toml"]
    started = repr((truth.command, sorted(truth.environment.items()))).encode()
    return hashlib.sha256(b"\0".join([*parts, started])).hexdigest()


def _copy(truth: Truth, scratch: Path, cure: Cure | None) -> Path:
    folder = scratch / truth.name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HOME / truth.name, folder, ignore=shutil.ignore_patterns("__pycache__", "truth.toml"))
    if cure is not None and cure.replace:
        changed = folder / cure.file
        text = changed.read_text("utf-8")
        if cure.replace not in text:
            raise ValueError(f"{truth.name}: the cure {cure.what!r} replaces text that is not in {cure.file}")
        changed.write_text(text.replace(cure.replace, cure.by), "utf-8")
    return folder


def _environment(truth: Truth | None, cure: Cure | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    own = {**(truth.environment if truth else {}), **(cure.environment if cure else {})}
    return {**kept, "PATH": path, **_DEVICE, **own}
