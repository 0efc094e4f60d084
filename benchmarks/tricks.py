"""Measures what each trick that makes a command fast gains: whole processes with it and without it, in turns.

    python benchmarks/tricks.py [--rounds 15] [--events 1000000] [--work FOLDER] [--only NAME]

Prints, for a cached run, a cold run of a sample, a cold run of a generated trace and a page of it, and a page and a
ticket bundle of one with 12,500 distinct ops on each of 8 devices, how much longer the command takes without the trick:
processor time and wall time, median and quartiles over the rounds. A trick stays where it gains 10 % of a run that
users do.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "sample_traces" / "predicted_decoder_fsdpv2"
_RUN = "from tpuprof.cli.entry import main; main()"


class Trick(NamedTuple):
    """What both processes import first, what the one without the trick does then, and the runs that it is for."""

    imports: str
    off: str
    runs: tuple[str, ...]


TRICKS = {
    "the way past the command line's library": Trick(
        "import tpuprof.cli.entry as m", "m.to_analyze = lambda arguments: None", ("cached", "sample")
    ),
    "records": Trick(
        "import dataclasses, tpuprof.records as m", "m.record = dataclasses.dataclass", ("cached", "sample")
    ),
    "the device's clock is summed while it is read": Trick(
        "import tpuprof.decode.xplane_walk as m", "m.SUMMED_STAT = ''", ("sample", "generated")
    ),
    "telltale signs are looked for in one pass": Trick(
        "import tpuprof.share.learn_profile as m", "m._texts = m.texts_around", ("report",)
    ),
    "texts of one form are looked at once": Trick(
        "import tpuprof.share.among as m",
        "m.form_of = str; m.for_forms = lambda pattern: pattern",
        ("many ops", "bundle"),
    ),
    "a profile is cut by a compiled walk": Trick(
        "import tpuprof.share.bundle as m", "m.cut = lambda *_: None", ("bundle",)
    ),
    "members are packed on another core": Trick(
        "import tpuprof.share.packing as m", "m.begin = lambda work: work", ("bundle",)
    ),
}  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--only", default="", help="tricks with this in their name")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        many_ops = str(generated(work, options.events, "--devices", "8", "--ops", "12500"))
        commands = {
            "cached": ["analyze", str(SAMPLE), "--json"],
            "sample": ["analyze", str(SAMPLE), "--json", "--no-cache"],
            "generated": ["analyze", str(generated(work, options.events)), "--json", "--no-cache"],
            "report": [
                "report",
                str(generated(work, options.events)),
                "-o",
                str(work / "report.html"),
                "--force",
            ],
            "many ops": ["report", many_ops, "-o", str(work / "report.html"), "--force"],
            "bundle": ["report", many_ops, "-o", str(work / "report.zip"), "--force"],
        }
        print("| trick | run | processor time without it | wall time without it |\n|---|---|---|---|")
        for name, trick in TRICKS.items():
            if options.only in name:
                for run in trick.runs:
                    print(
                        f"| {name} | {run} | {compared(trick, commands[run], options.rounds, work)} |",
                        flush=True,
                    )


def generated(work: Path, events: int, *options: str) -> Path:
    """A trace of about so many events, made once in a folder."""
    path = work / f"{events}{''.join(options)}.xplane.pb"
    if not path.is_file():
        script = ROOT / "benchmarks" / "generate_xspace.py"
        subprocess.run(
            [sys.executable, str(script), str(path), "--events", str(events), *options], check=True, stdout=2
        )
    return path


def compared(trick: Trick, command: list[str], rounds: int, work: Path) -> str:
    """Both changes in percent, of processes in turns."""
    ratios: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        taken = {}
        for off in (True, False) if number % 2 else (False, True):
            taken[off] = timed(f"{trick.imports}; {trick.off if off else 'pass'}; {_RUN}", command, work)
        if number:  # the first round fills caches
            for row, found in enumerate(ratios):
                found.append(100 * (taken[True][row] / taken[False][row] - 1))
    return " | ".join(_spread(found) for found in ratios)


def timed(program: str, command: list[str], work: Path) -> tuple[float, float]:
    """Processor seconds and wall seconds of one process."""
    environment = {**os.environ, "TPUPROF_CACHE_DIR": str(work / "cache"), "TPUPROF_BASE": ""}
    began = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-c", program, *command], env=environment, stdout=subprocess.DEVNULL, cwd=ROOT
    )
    _, status, used = os.wait4(child.pid, 0)
    wall = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
    return used.ru_utime + used.ru_stime, wall


def _spread(changes: list[float]) -> str:
    low, middle, high = statistics.quantiles(changes, n=4)
    return f"{middle:+.0f} % ({low:+.0f} to {high:+.0f})"


if __name__ == "__main__":
    main()
