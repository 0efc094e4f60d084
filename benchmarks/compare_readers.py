"""Time and peak memory of tpuprof, XProf and xprof-rs on the same files, whole processes, in turn.

    python benchmarks/compare_readers.py [--events 0.1 1 3 10] [--repeats 5] [--work FOLDER]

Files come from generate_xspace.py and are made when missing. Every run starts with an empty application
cache; the files themselves are in the page cache, for all alike. xprof-rs is used where it is on the path or
beside the running Python. Prints a table in Markdown: medians, lowest to highest, ratios to tpuprof.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

GENERATOR = Path(__file__).with_name("generate_xspace.py")
BIN = Path(sys.executable).parent
DECODE = """
import sys
from pathlib import Path
from tpuprof.decode.load import load
for plane in load(Path(sys.argv[1])).planes:
    for line in plane.lines:
        line.read_stats(plane.stat_keys(("_r", "step_num")))
"""
XPROF = """
import sys
from xprof.convert import raw_to_tool_data
raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "overview_page", {})
"""
# A run that takes longer is given up (seconds).
PATIENCE = 600
CACHE_VARIABLE = "XDG_CACHE_HOME"


@dataclass
class Measured:
    """One tool on one file: seconds and peak megabytes of every run."""

    seconds: list[float]
    megabytes: list[float]
    failed: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=float, nargs="+", default=[0.1, 1, 3, 10], help="millions")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "tpuprof-bench")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    print(
        "| events | MB | tool | s | peak MB | s to tpuprof | MB to tpuprof |\n|---|---|---|---|---|---|---|"
    )
    for millions in arguments.events:
        path = arguments.work / f"{millions:g}M" / "vm.xplane.pb"
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            # In a process of its own: a child's peak memory counts from its parent's.
            made = [sys.executable, str(GENERATOR), str(path), "--events", str(round(millions * 1e6))]
            subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
        for row in rows(path, millions, arguments.repeats):
            print(row, flush=True)


def rows(path: Path, millions: float, repeats: int) -> list[str]:
    tools = commands()
    subprocess.run(["cat", str(path)], check=True, stdout=subprocess.DEVNULL)  # into the page cache
    found = {name: Measured([], []) for name in tools}
    for _ in range(repeats):
        for name, command in tools.items():
            if not found[name].failed:
                measure(command, path, found[name])
    first = found["tpuprof analyze"]
    size = path.stat().st_size / 1e6
    return [
        f"| {millions:g} M | {size:,.0f} | {name} | {told(each, first)} |" for name, each in found.items()
    ]


def commands() -> dict[str, list[str]]:
    """What to run, without the file; tools that are not installed are left out."""
    tools = {
        "tpuprof analyze": [str(BIN / "tpuprof"), "analyze", "--json"],
        "tpuprof, decoder alone": [sys.executable, "-c", DECODE],
        "XProf": [sys.executable, "-c", XPROF],
    }
    rust = BIN / "xprof-rs"
    found = str(rust) if rust.exists() else shutil.which("xprof-rs")
    if found:
        tools["xprof-rs"] = [found, "get_overview"]
    else:
        print("xprof-rs is not installed and is left out (pip install xprof-rs)", file=sys.stderr)
    return tools


def measure(command: list[str], path: Path, into: Measured) -> None:
    """Run once; adds wall time and the peak resident memory the system tells of the process.

    The file is linked into a folder of its own, as XProf leaves its caches beside it.
    """
    with tempfile.TemporaryDirectory(dir=path.parent) as cache:
        file = Path(cache) / "plugins" / "profile" / "run" / path.name
        file.parent.mkdir(parents=True)
        os.link(path, file)
        start = time.perf_counter()
        child = subprocess.Popen(
            ["timeout", str(PATIENCE), *command, str(file)],
            env={**os.environ, CACHE_VARIABLE: cache},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        into.failed = f"failed (exit status {child.returncode})"
        return
    into.seconds.append(seconds)
    into.megabytes.append(usage.ru_maxrss / 1024)


def told(each: Measured, first: Measured) -> str:
    if each.failed or not each.seconds:
        return f"{each.failed} | | | "
    seconds, memory = statistics.median(each.seconds), statistics.median(each.megabytes)
    spread = f"{seconds:.2f} ({min(each.seconds):.2f} to {max(each.seconds):.2f}) | {memory:,.0f}"
    if first.failed:
        return f"{spread} | | "
    ratios = seconds / statistics.median(first.seconds), memory / statistics.median(first.megabytes)
    return f"{spread} | {ratios[0]:.2f} | {ratios[1]:.2f}"


if __name__ == "__main__":
    main()
