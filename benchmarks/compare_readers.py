"""Time and peak memory of tpuprof, XProf and xprof-rs on the same files, whole processes, in a new order each round.

    python benchmarks/compare_readers.py [--events 0.1 1 3 10] [--repeats 7] [--work FOLDER] [--xprof-rs COMMAND]
        [--here]

tpuprof is measured as `pip install` leaves it: this checkout is installed into an environment of its own in the
work folder (a minute). With --here it is the running Python's, whose other packages and editable installs are then
part of its time. Files come from generate_xspace.py and are made when missing; the smallest is a sample trace of
about 1 MB. Every run but the `again` one starts with an empty cache, of tpuprof's as of XProf's, which is beside
the file; the files themselves are in the page cache, for all alike. xprof-rs is used where it is on the path or
beside the running Python. Every answer is looked at, and files lie in a folder `plugins/profile/RUN`: elsewhere the
answer of xprof-rs is an error, with status 0. Prints a table in Markdown: medians, lowest to highest, and tpuprof's
share of each other's.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERATOR = ROOT / "benchmarks" / "generate_xspace.py"
SMALL = ROOT / "sample_traces" / "predicted_decoder_fsdpv2"
BIN = Path(sys.executable).parent
FIRST = "tpuprof analyze --json"
AGAIN = "the same again (cached)"
XPROF_NAME = "XProf, overview page"
# XProf takes over 2 GB of memory a million events, which larger files would bring a small machine down with.
XPROF_UP_TO = 3.0
XPROF = """
import sys
from xprof.convert import raw_to_tool_data
data, _ = raw_to_tool_data.xspace_to_tool_data(sys.argv[1:], "overview_page", {})
print(data if isinstance(data, str) else data.decode())
"""
# A run that takes longer is given up (seconds).
PATIENCE = 600
# A tool that has used up this much on one file is not run more often than this.
ENOUGH_SECONDS, ENOUGH_RUNS = 90, 3


@dataclass
class Measured:
    """One tool on one run: wall seconds, processor seconds and peak megabytes of each time, or why there is none."""

    wall: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)
    failed: str = ""

    @property
    def is_enough(self) -> bool:
        """Whether to run it no more."""
        return bool(self.failed) or (sum(self.wall) > ENOUGH_SECONDS and len(self.wall) >= ENOUGH_RUNS)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=float, nargs="+", default=[0.1, 1, 3, 10], help="millions")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "tpuprof-bench")
    parser.add_argument("--xprof-up-to", type=float, default=XPROF_UP_TO, help="millions of events")
    parser.add_argument("--here", action="store_true", help="measure the running Python's tpuprof")
    parser.add_argument("--xprof-rs", default=None, help="its command, where it is not found by itself")
    arguments = parser.parse_args()
    ours = [sys.executable, "-m", "tpuprof"] if arguments.here else [installed(arguments.work / "installed")]
    tools = commands(ours, arguments.xprof_rs)
    print(
        f"{platform.platform()}, {cpu()}, {os.cpu_count()} cores, Python {platform.python_version()}, {versions()}"
    )
    print(
        "\n| events | MB | tool | s | peak MB | tpuprof's time | tpuprof's memory |\n|---|---|---|---|---|---|---|"
    )
    small = next(SMALL.glob("plugins/profile/*/*.xplane.pb"))
    for row in rows(small, "sample", tools, arguments.repeats):
        print(row, flush=True)
    for millions in arguments.events:
        if millions > arguments.xprof_up_to:
            tools = {name: command for name, command in tools.items() if name != XPROF_NAME}
        path = made(arguments.work / f"{millions:g}M" / "vm.xplane.pb", round(millions * 1e6))
        for row in rows(path, f"{millions:g} M", tools, arguments.repeats):
            print(row, flush=True)


def installed(folder: Path) -> str:
    """The command of this checkout, installed into an environment of its own."""
    venv.create(folder, clear=True, with_pip=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", str(ROOT)], check=True)
    return str(folder / "bin" / "tpuprof")


def made(path: Path, events: int) -> Path:
    """The generated file, made where it is missing."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # In a process of its own: a child's peak memory counts from its parent's.
        subprocess.run(
            [sys.executable, str(GENERATOR), str(path), "--events", str(events)],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    return path


def rows(path: Path, name: str, tools: dict[str, list[str]], repeats: int) -> list[str]:
    subprocess.run(["cat", str(path)], check=True, stdout=subprocess.DEVNULL)  # into the page cache
    found = {tool: Measured() for tool in tools}
    with tempfile.TemporaryDirectory() as kept:
        measure(tools[AGAIN], [path], Measured(), wrong_analysis, kept)  # fills the cache
        order = random.Random(repeats)
        for _ in range(repeats):
            # Which tool ran before makes one faster or slower by up to a third: none may always follow the same other.
            for tool in order.sample(list(tools), len(tools)):
                if not found[tool].is_enough:
                    wrong = wrong_analysis if tool in (FIRST, AGAIN) else wrong_overview
                    measure(tools[tool], [path], found[tool], wrong, kept if tool == AGAIN else None)
    size = path.stat().st_size / 1e6
    return [f"| {name} | {size:,.1f} | {tool} | {row(each, found[FIRST])} |" for tool, each in found.items()]


def commands(tpuprof: list[str], rust: str | None) -> dict[str, list[str]]:
    """What to run, without the file; tools that are not installed are left out."""
    ours = [*tpuprof, "analyze", "--json"]
    tools = {FIRST: ours, AGAIN: ours, XPROF_NAME: [sys.executable, "-c", XPROF]}
    beside = BIN / "xprof-rs"
    rust = rust or (str(beside) if beside.exists() else shutil.which("xprof-rs"))
    if rust:
        tools["xprof-rs get_overview"] = [rust, "get_overview"]
    else:
        print("xprof-rs is not installed and is left out (pip install xprof-rs)", file=sys.stderr)
    return tools


# Runs a command and notes its status, seconds, processor seconds and peak memory (KiB). Linux counts the memory of the
# process that starts another one as that one's, so a benchmark that has read large answers must not start it itself.
LAUNCHER = """
import json, os, sys, time
began = time.perf_counter()
child = os.spawnvp(os.P_NOWAIT, sys.argv[2], sys.argv[2:])
_, status, used = os.wait4(child, 0)
seconds = time.perf_counter() - began
row = [os.waitstatus_to_exitcode(status), seconds, used.ru_utime + used.ru_stime, used.ru_maxrss]
with open(sys.argv[1], "w") as file:
    json.dump(row, file)
"""


def measure(
    command: list[str],
    paths: list[Path],
    into: Measured,
    wrong: Callable[[str], str],
    cache: str | None = None,
    *,
    as_folder: bool = False,
) -> None:
    """Run once; adds times and the peak resident memory of the process, or why the answer is none.

    Without a cache to use, the files are linked into a folder of their own, laid out as profilers do: XProf leaves its
    cache beside them, and xprof-rs reads no other layout.
    """
    with tempfile.TemporaryDirectory() as fresh:
        given = [str(path) for path in paths]
        if cache is None:
            run = Path(fresh) / "plugins" / "profile" / "run"
            run.mkdir(parents=True)
            for path in paths:
                os.symlink(path.resolve(), run / path.name)
            given = [str(run)] if as_folder else [str(run / path.name) for path in paths]
        answer, usage = Path(fresh) / "answer", Path(fresh) / "usage"
        with answer.open("wb") as out:
            subprocess.run(
                [sys.executable, "-ISc", LAUNCHER, str(usage), "timeout", str(PATIENCE), *command, *given],
                env={**os.environ, "TPUPROF_CACHE_DIR": cache or fresh},
                stdout=out,
                stderr=subprocess.DEVNULL,
                check=True,
            )
        status, seconds, busy, kilobytes = json.loads(usage.read_text())
        failed = f"failed (exit status {status})" if status else ""
        into.failed = failed or wrong(answer.read_text("utf-8", "replace"))
    if not into.failed:
        into.wall.append(seconds)
        into.busy.append(busy)
        into.megabytes.append(kilobytes / 1024)


def wrong_analysis(answer: str) -> str:
    """Why tpuprof's answer is none, empty where it is one."""
    return "" if json.loads(answer)["steps"]["per_step"] else "found no step"


def wrong_overview(answer: str) -> str:
    """Why an overview page is none, empty where it is one: some tools say in no time that they cannot."""
    return "" if len(answer) > 500 and '"error"' not in answer[:500].lower() else "gave no answer"


def row(each: Measured, first: Measured) -> str:
    if each.failed or not each.wall:
        return f"{each.failed} | | | "
    seconds, memory = statistics.median(each.wall), statistics.median(each.megabytes)
    spread = f"{seconds:.2f} ({min(each.wall):.2f} to {max(each.wall):.2f}) | {memory:,.0f}"
    if first.failed or each is first:
        return f"{spread} | | "
    time_share = statistics.median(first.wall) / seconds
    return f"{spread} | {time_share:.2f} | {statistics.median(first.megabytes) / memory:.2f}"


def cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def versions() -> str:
    found = []
    for package in ("tpuprof", "xprof", "numpy"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


if __name__ == "__main__":
    main()
