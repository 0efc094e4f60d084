"""How much of the steps behind the capture is tpuprof's own work, from samples of the running program's stacks.

Two runs of one program differ by several percent, so that clocks of a bare and a captured run cannot judge 1 % of one
program. Stacks can: py-spy reads them from outside, and a frame of tpuprof in them is its own work. What threads and
processes of tpuprof take is known from the kernel, since a waiting thread may look busy from outside.
They do not show native code, which graph cuts need 1 to 2 us of in a rest, nor what is indirect: more memory in use,
caches, Python's garbage collection.
"""

from __future__ import annotations

import contextlib
import linecache
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runner.execute import TIMEOUT_SECONDS, Start, bare_kept, fingerprint, start_captured
from runner.overhead import AT_MOST, Z
from runner.result import RESULTS, keep, told_of
from runner.truth import Truth
from runner.turns import lengthen, signal_all, started
from tpuprof.instrument.own_work import PASSES_ON

# Samples per second: the program runs on while it is read, and each read takes about 1 ms of the other core.
RATE_HZ = 300
# How long the program trains (s), by more steps than it has otherwise: before the capture, in it and behind it.
TRAIN_FOR_S = 20.0
# Most steps of such a run, as a multiple of the program's own number: steps of a millisecond are many.
MOST_TIMES = 1000
# How long the stacks are sampled (s): 3,000 samples, of which 30 are 1 %. A program that ends sooner has fewer samples,
# and one that ends within the shortest time tells nothing.
SAMPLE_FOR_S, SHORTEST_S = 10.0, 2.0
# How long ago a profile was written for the capture to be over where nothing says so (s).
WRITTEN_FOR_S = 3.0
# The file of what was measured.
NAME = "own_share"
# What `tpuprof capture` prints when the capture is written.
_WRITTEN = "writing the capture took"
_FRAME = re.compile(r"\(([^()]+):(\d+)\)$")
_PROCESS = re.compile(r'process (\d+:"[^"]*)"')
# Processes of the capture itself run beside the program.
_COMMAND = "tpuprof capture"
_THREAD = re.compile(r"thread \((\d+)\)")
_HIDDEN_THREAD = "HiddenThread._run "


@dataclass
class OwnShare:
    """Samples of the busiest process: in tpuprof's own work, and all; and what its threads and processes take (s)."""

    program: str
    own: int
    ticks: int
    beside_s: float
    seconds: float

    @property
    def share(self) -> float:
        """Own work as a share of the time."""
        return self.own / self.ticks + self.beside_s / self.seconds

    @property
    def at_most(self) -> float:
        """The upper end of the 95 % interval of `share` (Wilson's)."""
        part, z2 = self.own / self.ticks, Z**2 / self.ticks
        half = Z * math.sqrt(part * (1 - part) / self.ticks + z2 / (4 * self.ticks))
        return (part + z2 / 2 + half) / (1 + z2) + self.beside_s / self.seconds

    @property
    def word(self) -> str:
        """`fine` where it is surely below 1 %, `slow` where it is above."""
        if self.at_most <= AT_MOST:
            return "fine"
        return "slow" if self.share > AT_MOST else "unclear"

    @property
    def short(self) -> str:
        """The share and its upper end, for a table."""
        return f"{self.share:.2%}, at most {self.at_most:.2%} ({self.word})"

    def __str__(self) -> str:
        return f"own work {self.short}"


def measure(truth: Truth) -> OwnShare | None:
    """Run the program captured, sample the steps behind the capture, and keep the result; None if it ends too soon."""
    with tempfile.TemporaryDirectory() as scratch:
        alone = bare_kept(truth, Path(scratch), RESULTS / truth.name / "bare.json", again=False)
        start = start_captured(truth, Path(scratch), Path(scratch) / "run")
        lengthen(start.folder, truth, alone.seconds, TRAIN_FOR_S, MOST_TIMES)
        told = _sampled(start, Path(scratch))
    if told is None:
        return None
    share = OwnShare(fingerprint(truth), *told)
    keep(truth, NAME, vars(share))
    return share


def kept(truth: Truth) -> OwnShare | None:
    """What was measured of the program as it is now."""
    told = told_of(truth, NAME)
    return OwnShare(**told) if told is not None else None


def _sampled(start: Start, scratch: Path) -> tuple[int, int, float, float] | None:
    out, messages, stacks = (scratch / name for name in ("out.txt", "messages.txt", "stacks.txt"))
    process = started(start, out, messages)
    signal_all(process, signal.SIGCONT)
    try:
        if not _wait_for(process, messages, scratch / "run"):
            return None
        before, began = _cpu_of_threads(process.pid), time.perf_counter()
        spy = [
            _py_spy(), "record", "--pid", str(process.pid), "--subprocesses", "--threads", "--full-filenames",
            "--nonblocking", "--rate", str(RATE_HZ), "--duration", f"{SAMPLE_FOR_S:.0f}",
            "--format", "raw", "--output", str(stacks),
        ]  # fmt: skip
        with subprocess.Popen(spy, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as spying:
            took, after = 0.0, before
            # A program may end while it is sampled: its threads' times are those just before. The capture's own process
            # then looks at what was written, which slows nobody.
            while spying.poll() is None and time.perf_counter() - began < TIMEOUT_SECONDS:
                if _trains(process.pid):
                    took, after = time.perf_counter() - began, _cpu_of_threads(process.pid) or after
                time.sleep(0.2)
        seconds = min(took, SAMPLE_FOR_S)
        if seconds < SHORTEST_S or not stacks.is_file():
            return None
        own, beside = read(stacks.read_text("utf-8", "replace"), _package(start), before, after)
        return own, round(RATE_HZ * seconds), beside, took
    finally:
        signal_all(process, signal.SIGKILL)
        process.wait()


def read(stacks: str, package: str, before: dict[str, float], after: dict[str, float]) -> tuple[int, float]:
    """From py-spy's stacks and the processor time of each thread (s): own samples, and the time of own threads.

    `package` is the folder that the sampled program has tpuprof from. Samples are those of the process that has most;
    the time is that of tpuprof's threads in the program and of its own processes.
    """
    own: dict[str, int] = {}
    ours: set[str] = set()
    for process, thread, frames, count in _parsed(stacks):
        own.setdefault(process, 0)
        if _COMMAND in process or (frames and _HIDDEN_THREAD in frames[0]):
            ours.add(thread)
        elif _is_own(frames, package):
            own[process] += count
    beside = sum(after[thread] - before.get(thread, 0.0) for thread in ours & after.keys())
    return max(own.values(), default=0), beside


def _parsed(stacks: str) -> Iterator[tuple[str, str, list[str], int]]:
    """Process, thread, frames (outermost first) and number of samples of each line."""
    for line in stacks.splitlines():
        text, _blank, count = line.rpartition(" ")
        # A child's stacks begin with the processes that it comes from.
        processes, thread = _PROCESS.findall(text), _THREAD.search(text)
        frames = [each for each in text.split(";") if _FRAME.search(each)]
        if thread is not None and count.isdigit():
            yield processes[-1] if processes else "", thread[1], frames, int(count)


def _is_own(frames: list[str], package: str) -> bool:
    """Whether the innermost frame of tpuprof is below the program's, and does not pass a call on.

    What it does as the program ends is below none of the program's.
    """
    for inner in range(len(frames) - 1, -1, -1):
        found = _FRAME.search(frames[inner])
        path, line = (found[1], int(found[2])) if found else ("", 0)
        if path.startswith(package):
            passes_on = any(call in linecache.getline(path, line) for call in PASSES_ON)
            return not passes_on and any(_is_of_program(each, package) for each in frames[:inner])
        if _is_of_program(frames[inner], package):
            return False
    return False


def _is_of_program(frame: str, package: str) -> bool:
    found = _FRAME.search(frame)
    path = found[1] if found else "<"
    library = "site-packages" in path or f"/python{sys.version_info[0]}" in path
    return not library and not path.startswith((package, "<"))


def _wait_for(process: subprocess.Popen[bytes], messages: Path, run: Path) -> bool:
    """Wait until the capture is written; False if the program ended before.

    Of a recording by the clock, as of JAX without step marks, nothing is said before the end, and it may be made again.
    Its file is written long before the next one then.
    """
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if _WRITTEN in messages.read_text("utf-8", "replace") or _is_old(run):
            return True
        time.sleep(0.1)
    return False


def _is_old(run: Path) -> bool:
    """Whether a profile was written some time ago: what is done with it at once is part of the capture."""
    return any(time.time() - each.stat().st_mtime > WRITTEN_FOR_S for each in run.rglob("*.xplane.pb"))


def _trains(session: int) -> bool:
    """Whether a process of a session runs that is not the capture's own."""
    return any(b"tpuprof\0capture" not in (each / "cmdline").read_bytes() for each in _processes(session))


def _processes(session: int) -> Iterator[Path]:
    """The folders in `/proc` of a session's processes that run."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if os.getsid(int(process.name)) == session and (process / "cmdline").read_bytes():
                yield process


def _cpu_of_threads(session: int) -> dict[str, float]:
    """Time on a processor (s) of each thread of all processes of a session."""
    taken = {}
    for process in _processes(session):
        for task in (process / "task").glob("*"):
            with contextlib.suppress(OSError):
                taken[task.name] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return taken


def _package(start: Start) -> str:
    """Where the program has tpuprof from: not always this checkout."""
    asks = [sys.executable, "-c", "import tpuprof; print(tpuprof.__path__[0])"]
    told = subprocess.run(
        asks, cwd=start.folder, env=start.environment, capture_output=True, text=True, check=True
    )
    return told.stdout.strip() + "/"


def _py_spy() -> str:
    found = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if found is None:
        raise SystemExit("py-spy is missing: pip install --group zoo")
    return found
