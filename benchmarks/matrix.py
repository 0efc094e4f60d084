"""How time and memory of an analysis grow with each factor of a trace, one at a time around a middle, beside others.

    python benchmarks/matrix.py [--factor events ops devices steps hosts format] [--repeats 5] [--largest]
        [--work FOLDER] [--here] [--xprof-rs COMMAND]

The middle is a million events: four devices, 1,500 distinct ops per device, one host, XPlane. The other tools are
xprof-rs and XProf (their overview page) and a bare parse with protobuf, where they are installed; each tool is asked
for an answer that is looked at, and every file lies in a folder `plugins/profile/RUN`, without which xprof-rs answers
with an error in no time. Tools take turns in a new order each round. Prints a table per factor: wall time, processor
time and peak memory, medians with lowest and highest; then the slope of the processor time (the exponent of growth
from the second cell on: below that, what every analysis costs decides) and every goal that is missed. Without
--largest, cells above ten million events are left out. Files are made in the work folder and kept there.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from compare_readers import (
    BIN,
    ROOT,
    Measured,
    cpu,
    installed,
    measure,
    versions,
    wrong_analysis,
    wrong_overview,
)
from compare_readers import XPROF as XPROF_PAGE

GENERATOR = ROOT / "benchmarks" / "generate_xspace.py"
SAMPLE = ROOT / "sample_traces" / "recompile_shapes"
OURS, RUST, XPROF, PARSE = "tpuprof analyze --json", "xprof-rs", "XProf", "protobuf parse"
# Goals: share of xprof-rs's time and memory from a million events on, seconds below, exponent of growth.
TIME_SHARE, MEMORY_SHARE, FROM_EVENTS, SMALL_SECONDS, EXPONENT = 0.9, 0.5, 1_000_000, 0.35, 1.1
# Goals of other formats and of many hosts (seconds; megabytes).
CHROME_SECONDS, CHROME_MB, HOSTS_256_SECONDS = 2.5, 700, 60
# XProf and protobuf take some two gigabytes a million events: larger files are not theirs (events).
OBJECTS_UP_TO = 3_000_000
PARSE_PROGRAM = """
import sys
from tpuprof.decode import xplane_pb2
for path in sys.argv[1:]:
    print(len(xplane_pb2.XSpace.FromString(open(path, "rb").read()).planes), "planes")
"""


@dataclass(frozen=True)
class Cell:
    """One trace. With `events` 0 there are so many `steps`; small steps hold a dozen events."""

    events: int = FROM_EVENTS
    ops: int = 1_500
    devices: int = 4
    steps: int = 0
    small_steps: bool = False
    hosts: int = 1
    format: str = "xplane"

    @property
    def name(self) -> str:
        """What the file is called by."""
        return "-".join(str(each) for each in vars(self).values())

    @property
    def arguments(self) -> list[str]:
        """What the generator is asked for."""
        shape = ["--ops", str(self.ops), "--devices", str(self.devices)]
        if self.small_steps:
            shape += ["--transfers", "0", "--traced", "8", "--pool-threads", "0"]
        return [*shape, *(["--steps", str(self.steps)] if self.steps else ["--events", str(self.events)])]


MIDDLE = Cell()
FACTORS = {
    "events": [
        replace(MIDDLE, events=each) for each in (100_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000)
    ],
    "ops": [replace(MIDDLE, ops=each) for each in (40, 1_500, 12_500, 50_000)],
    "devices": [replace(MIDDLE, devices=each) for each in (1, 4, 8, 16)],
    "steps": [
        replace(MIDDLE, events=each * 19, steps=each, small_steps=True, devices=1, ops=8)
        for each in (5, 3_000, 30_000, 300_000)
    ],
    "hosts": [replace(MIDDLE, events=0, hosts=each) for each in (1, 16, 64, 256)],
    "format": [replace(MIDDLE, format=each) for each in ("xplane", "gz", "chrome")],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--factor", nargs="+", choices=FACTORS, default=list(FACTORS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--largest", action="store_true", help="cells above ten million events too")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "tpuprof-bench")
    parser.add_argument("--here", action="store_true", help="measure the running Python's tpuprof")
    parser.add_argument("--xprof-rs", default=None, help="its command, where it is not found by itself")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    ours = [sys.executable, "-m", "tpuprof"] if arguments.here else [installed(arguments.work / "installed")]
    tools = commands(ours, arguments.xprof_rs)
    print(f"{platform.platform()}, {cpu()}, {os.cpu_count()} cores, {versions()}")
    missed: list[str] = []
    for factor in arguments.factor:
        cells = [cell for cell in FACTORS[factor] if arguments.largest or cell.events <= 10_000_000]
        missed += table(factor, cells, tools, arguments.repeats, arguments.work)
    print(
        "\nGoals missed:\n" + "\n".join(f"- {each}" for each in missed) if missed else "\nEvery goal is met."
    )


def commands(tpuprof: list[str], rust: str | None) -> dict[str, list[str]]:
    """What to run, without the file; tools that are not installed are left out."""
    tools = {OURS: [*tpuprof, "analyze", "--json"], PARSE: [sys.executable, "-c", PARSE_PROGRAM]}
    beside = BIN / "xprof-rs"
    rust = rust or (str(beside) if beside.exists() else shutil.which("xprof-rs"))
    if rust:
        tools[RUST] = [rust, "get_overview"]
    if (
        subprocess.run([sys.executable, "-c", "import xprof"], check=False, capture_output=True).returncode
        == 0
    ):
        tools[XPROF] = [sys.executable, "-c", XPROF_PAGE]
    return tools


def table(factor: str, cells: list[Cell], tools: dict[str, list[str]], repeats: int, work: Path) -> list[str]:
    """Measure one factor and print its table; returns the goals that are missed."""
    print(f"\n| {factor} | MB | tool | s | processor s | peak MB |\n|---|---|---|---|---|---|", flush=True)
    missed, slopes = [], []
    for cell in cells:
        path = made(cell, work)
        size = sum(each.stat().st_size for each in files(path))
        found = measured(cell, path, tools, repeats)
        value = getattr(cell, factor)
        for tool, each in found.items():
            print(
                f"| {value if isinstance(value, str) else f'{value:,}'} | {size / 1e6:,.1f} | {tool} | {row(each)} |"
            )
        missed += [f"{factor} {value}: {goal}" for goal in goals(cell, found)]
        if not isinstance(value, str) and found[OURS].busy:
            slopes.append((value, statistics.median(found[OURS].busy)))
    slope = exponent(slopes)
    if slope is not None:
        print(f"\nProcessor time grows with {factor} to the power of {slope:.2f}.", flush=True)
        if slope > EXPONENT:
            missed.append(f"{factor}: exponent {slope:.2f}, more than {EXPONENT}")
    return missed


def exponent(points: list[tuple[float, float]]) -> float | None:
    """The exponent of growth from the second point to the last, None where there are too few."""
    if len(points) < 3:
        return None
    (first, start), (last, end) = points[1], points[-1]
    return math.log(end / start) / math.log(last / first)


def row(each: Measured) -> str:
    if each.failed or not each.wall:
        return f"{each.failed} | | "
    spread = f"{statistics.median(each.wall):.2f} ({min(each.wall):.2f} to {max(each.wall):.2f})"
    return f"{spread} | {statistics.median(each.busy):.2f} | {statistics.median(each.megabytes):,.0f}"


def goals(cell: Cell, found: dict[str, Measured]) -> list[str]:
    """The goals that a cell misses, in words."""
    ours, rust = found[OURS], found.get(RUST)
    if ours.failed or not ours.wall:
        return [f"tpuprof {ours.failed}"]
    seconds, megabytes = statistics.median(ours.wall), statistics.median(ours.megabytes)
    limits = []
    if cell.format == "chrome":
        limits = [(seconds, CHROME_SECONDS, "s"), (megabytes, CHROME_MB, "MB")]
    elif cell.hosts == 256:
        limits = [(seconds, HOSTS_256_SECONDS, "s")]
    elif cell.hosts == 1 and cell.events < FROM_EVENTS:
        limits = [(seconds, SMALL_SECONDS, "s")]
    elif rust is not None and rust.wall and cell.format == "xplane":
        limits = [
            (seconds / statistics.median(rust.wall), TIME_SHARE, "of xprof-rs's time"),
            (megabytes / statistics.median(rust.megabytes), MEMORY_SHARE, "of xprof-rs's memory"),
        ]
    return [f"{value:.2f} {what}, more than {limit:g}" for value, limit, what in limits if value > limit]


def made(cell: Cell, work: Path) -> Path:
    """The folder of a cell's files, made where it is missing."""
    folder = work / "matrix" / cell.name / "plugins" / "profile" / "run"
    if folder.exists():
        return folder
    unfinished = folder.with_name("unfinished")
    unfinished.mkdir(parents=True, exist_ok=True)
    first = unfinished / "host-0.xplane.pb"
    if cell.events:
        # In a process of its own: a child's peak memory counts from its parent's.
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, str(GENERATOR), str(first), *cell.arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    else:
        for host in range(cell.hosts):
            shutil.copy(
                next(SAMPLE.glob("plugins/profile/*/*.xplane.pb")), unfinished / f"host-{host}.xplane.pb"
            )
    if cell.format == "gz":
        (unfinished / "host-0.xplane.pb.gz").write_bytes(gzip.compress(first.read_bytes(), 6))
        first.unlink()
    elif cell.format == "chrome":
        write_chrome(first, unfinished / "host-0.trace.json")
        first.unlink()
    unfinished.rename(folder)
    return folder


def write_chrome(source: Path, out: Path) -> None:
    """The events of a profile as XProf's Chrome JSON has them, line by line."""
    from tpuprof.decode.load import load

    with out.open("w") as file:
        file.write('{"displayTimeUnit":"ns","traceEvents":[')
        separator = ""
        for pid, plane in enumerate(load(source).planes, 1):
            labels = [("process_name", None, plane.name)]
            labels += [("thread_name", tid, line.name) for tid, line in enumerate(plane.lines, 1)]
            facts: list[dict[str, object]] = [{} for _ in plane.events.ids]
            table = plane.events.stats
            for at, entry in enumerate(table.row.tolist()):
                key = plane.stat_names.get(int(table.key[at]), "")
                if key in ("hlo_category", "tf_op", "source", "flops", "bytes_accessed"):
                    facts[entry][key] = plane.text(table, at)
            for entry, (name, display) in enumerate(
                zip(plane.events.names, plane.events.display_names, strict=True)
            ):
                facts[entry] = {"long_name": name, **facts[entry]} if display else facts[entry]
            for kind, tid, label in labels:
                event = {"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": {"name": label}}
                file.write(
                    separator + json.dumps({key: each for key, each in event.items() if each is not None})
                )
                separator = ",\n"
            for tid, line in enumerate(plane.lines, 1):
                columns = plane.events.rows(line.metadata_id), line.offset_ps, line.duration_ps
                for entry, start, length in zip(*(column.tolist() for column in columns), strict=True):
                    event = {
                        "ph": "X",
                        "pid": pid,
                        "tid": tid,
                        "ts": start / 1e6,
                        "dur": length / 1e6,
                        "name": plane.events.display_names[entry] or plane.events.names[entry],
                        "args": facts[entry],
                    }
                    file.write(separator + json.dumps(event, separators=(",", ":")))
        file.write("]}")


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


def measured(cell: Cell, folder: Path, tools: dict[str, list[str]], repeats: int) -> dict[str, Measured]:
    """All tools on one cell, taking turns."""
    found = {tool: Measured() for tool in tools if can(tool, cell)}
    for path in files(folder):
        # Into the page cache, and not through this process: its peak of memory counts for its children.
        subprocess.run(["cat", str(path)], check=True, stdout=subprocess.DEVNULL)
    order = random.Random(repeats)
    for _ in range(repeats):
        for tool in order.sample(list(found), len(found)):
            if not found[tool].is_enough:
                as_folder = tool == OURS and len(files(folder)) > 1
                measure(tools[tool], files(folder), found[tool], wrong(tool), as_folder=as_folder)
    return found


def can(tool: str, cell: Cell) -> bool:
    """Whether a tool reads such a trace, and fits into a small machine's memory."""
    if tool == OURS:
        return True
    if cell.format != "xplane" or (tool == RUST and cell.hosts > 1):
        return False
    return tool == RUST or (cell.events <= OBJECTS_UP_TO and cell.hosts <= 16)


def wrong(tool: str) -> Callable[[str], str]:
    """What looks at a tool's answer."""
    if tool == PARSE:
        return lambda answer: "" if "planes" in answer else "read nothing"
    return wrong_analysis if tool == OURS else wrong_overview


if __name__ == "__main__":
    main()
