"""Runs whole commands on damaged files and folders, each in a forked process with a limit of time and memory.

usage: python fuzz/commands.py [--count N] [--seed N] [--only COMMAND] [PATH...]

Every PATH (a file or a folder, copied first), every sample, and files built here are damaged in turn. A finding is an
exit status that the command does not document, a traceback, output that a terminal would obey, JSON that is none, and
whatever ends the process. What was found is kept beside this file as `crash-*`.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import io
import json
import os
import pkgutil
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT)]

from changes import changed_file  # noqa: E402

MEMORY = 4 << 30
# Processor time that one command may take, and the time until it counts as hung (seconds): the machine may be busy.
LONGEST, HUNG = 60, 600
# Output that is looked at (bytes).
MOST_OUTPUT = 64 << 20
# How often a file of a folder is lost, empty, or something else than a file (share).
ODD_FILES = 0.1


class Command(NamedTuple):
    """Arguments before and after the path, the statuses that it documents, and how often it is chosen."""

    before: tuple[str, ...]
    after: tuple[str, ...] = ()
    statuses: tuple[int, ...] = (0, 2)
    weight: int = 1


_SQL = "SELECT h.host, count(*) FROM hosts h JOIN op_events o USING (host) GROUP BY ALL"
OF_RUNS = (
    Command(("analyze",), ("--no-cache",), weight=4),
    Command(("analyze",), ("--no-cache", "--json"), weight=6),
    Command(("analyze",), ("--no-cache", "--md"), weight=2),
    Command(("analyze",), ("--no-cache", "--all-ops", "--why")),
    Command(("report",), ("--force", "-o", "OUT/r.html")),
    Command(("report",), ("--force", "-o", "OUT/r.zip")),
    Command(("report",), ("--force", "-o", "OUT/r.sarif")),
    Command(("query",), (_SQL,)),
    Command(("query",), ("SELECT * FROM steps", "--csv")),
    Command(("export",), ("--parquet", "--force", "-o", "OUT/tables")),
    Command(("check",), ("-b", "smoke"), (0, 1, 2)),
    Command(("diff", "BASE"), (), (0, 1, 2, 4)),
)
OF_LEDGERS = (
    Command(("goodput",)),
    Command(("goodput",), ("--json",)),
    Command(("history",)),
    Command(("history",), ("--json",)),
    Command(("watch", "--once", "--follow")),
)


class Seed(NamedTuple):
    """A file or folder that is damaged, and what is asked of it."""

    name: str
    path: Path
    commands: tuple[Command, ...]


class Found(NamedTuple):
    """What a command did: its exit status (negative for a signal), and what it wrote."""

    status: int
    out: bytes
    err: str


def main() -> int:
    """Damage and run; status 1 where anything was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", help="run this command alone")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    # Commands end by what is registered to run at exit, which would remove a `TemporaryDirectory`.
    folder = Path(tempfile.mkdtemp(prefix="tpuprof-fuzz-"))
    try:
        os.environ["TPUPROF_CACHE_DIR"] = str(folder / "cache")
        import_all()
        return run(folder, options.paths, options.count, options.seed, options.only)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(folder: Path, paths: list[Path], count: int, seed: int, only: str = "") -> int:
    """Try so many inputs; status 1 where anything was found."""
    rng = random.Random(seed)
    seeds = [each for each in seeds_in(folder / "seeds", paths) if chosen(each, only)]
    warm_up(folder / "seeds")
    print(f"seed {seed}: {len(seeds)} files and folders", flush=True)
    tally: Counter[tuple[str, str, int]] = Counter()
    kinds: set[str] = set()
    slowest = 0.0
    for number in range(count):
        each = rng.choice(seeds)
        damaged = folder / "damaged"
        target = damage(each.path, damaged, rng)
        commands = chosen(each, only)
        command = rng.choices(commands, [one.weight for one in commands])[0]
        begun = time.monotonic()
        found = outcome(command, target, folder)
        slowest = max(slowest, time.monotonic() - begun)
        wrong = what_is_wrong(command, found)
        tally[each.name, command.before[0], found.status] += 1
        if wrong and (kind := f"{command.before[0]}: {wrong}") not in kinds:
            kinds.add(kind)
            kept = HERE / f"crash-{command.before[0]}-{seed}-{number}{target.suffix}"
            subprocess.run(["cp", "-a", target, kept], check=True)
            asked = " ".join([*command.before, *command.after])
            print(
                f"FOUND in {asked} ({each.name}, kept as {kept.name}): {wrong}\n{found.err[-3000:]}",
                flush=True,
            )
        if number % 500 == 499:
            print(f"{number + 1} tried, {len(kinds)} found", flush=True)
        shutil.rmtree(damaged)
    for (name, command_name, status), times in sorted(tally.items()):
        print(f"{name:44} {command_name:8} status {status}: {times}")
    print(f"{count} mutations of {len(seeds)} seeds: {len(kinds)} found; slowest {slowest:.1f} s")
    return 1 if kinds else 0


def warm_up(folder: Path) -> None:
    """Have what commands make once per process made before they are forked: templates, tables of terminals."""
    from rich.console import Console

    from tpuprof.goodput import history, jobs
    from tpuprof.render.html import render_html
    from tpuprof.render.markdown import render_markdown
    from tpuprof.render.text import render
    from tpuprof.report.load import read_report
    from tpuprof.share.redacted_report import redactor_for
    from tpuprof.watch.follow import picture, read_jobs

    report = read_report(folder / "saved.json")
    console = Console(file=io.StringIO(), width=200)
    render(report, console)
    render_html(redactor_for(report).value(report))
    render_markdown(report)
    jobs.render(jobs.goodput_of(folder / "job"), console)
    history.render(history.history_of(folder / "job"), console)
    console.print(picture(read_jobs(folder / "job")))


def chosen(seed: Seed, only: str) -> list[Command]:
    """The commands of a seed, or one of them alone."""
    return [each for each in seed.commands if only in ("", each.before[0])]


def import_all() -> None:
    """Import what commands need once, so that each forked process need not; what trains is left out."""
    import tpuprof

    for package in ("analysis", "cli", "compare", "budget", "goodput", "render", "share", "tables", "watch"):
        for each in pkgutil.walk_packages([str(Path(tpuprof.__path__[0]) / package)], f"tpuprof.{package}."):
            with contextlib.suppress(ImportError):
                importlib.import_module(each.name)
    importlib.import_module("tpuprof.rules.registry").all_rules()
    for name in ("rich.table", "google.protobuf.message", "duckdb", "pyarrow.parquet"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def seeds_in(folder: Path, paths: list[Path]) -> list[Seed]:
    """Copies of the given paths and of the samples, and what is built here."""
    folder.mkdir()
    found = []
    samples = [path for path in sorted((ROOT / "sample_traces").iterdir()) if (path / "tpuprof").is_dir()]
    for number, path in enumerate([*paths, *samples]):
        place = folder / str(number) / path.name
        place.parent.mkdir()
        (shutil.copytree if path.is_dir() else shutil.copy)(path, place)
        os.chmod(place, 0o755 if path.is_dir() else 0o644)
        found.append(Seed(path.name, place, OF_RUNS))
    return [*found, *built(folder)]


def built(folder: Path) -> Iterator[Seed]:
    """Files and folders made here: traces of the tests, Chrome JSON, a saved report, a bundle, a watched job."""
    from mutate import _exported
    from mutate import built as traces

    from tests.model.test_gpu import kineto

    for name, data in traces():
        yield _file(folder, f"built{name}.xplane.pb", data)
        yield _file(folder, f"built{name}.trace.json.gz", _gzipped(_exported(data)))
    yield _file(folder, "kineto.json", json.dumps(kineto()).encode())
    sample = ROOT / "sample_traces" / "recompile_shapes"
    (profile,) = sample.rglob("*.xplane.pb")
    yield _file(folder, "sample.trace.json", _exported(profile.read_bytes()))
    for suffix in ("json", "zip"):
        path = folder / f"saved.{suffix}"
        done = outcome(Command(("report",), ("--no-redact", "-o", str(path))), sample, folder)
        assert done.status == 0, done.err
        yield Seed(
            path.name, path, tuple(each for each in OF_RUNS if each.before[0] not in ("query", "export"))
        )
    from tests.watch.simulated import Training

    training = Training(folder / "job", step_seconds=1.0)
    for number in range(300):
        training.step(compile_seconds=2.0 * (number % 100 == 1), save_seconds=3.0 * (number % 60 == 9))
    training.ledger.flush()
    write_status(folder / "job", training)
    yield Seed("job", folder / "job", OF_LEDGERS)


def write_status(folder: Path, training: Any) -> None:
    """What a watched process writes beside its ledger: its state, and the verdict of a capture."""
    from tpuprof.watch.analysis import write_verdict
    from tpuprof.watch.status import Status
    from tpuprof.watch.tpu_metrics import TpuMetrics

    training.counters.chips = TpuMetrics()
    status = Status(folder, training.ledger.path.name, training.ledger)
    status.write(training.collector, training.found)
    capture = folder / "captures" / "one"
    capture.mkdir(parents=True)
    anomaly = vars(training.found[0]) if training.found else {"kind": "slow", "step": 3}
    write_verdict(capture, {"anomaly": anomaly, "capture": "Input-bound."})


def _gzipped(data: bytes) -> bytes:
    import gzip

    return gzip.compress(data, 1)


def _file(folder: Path, name: str, data: bytes) -> Seed:
    (folder / name).write_bytes(data)
    return Seed(name, folder / name, OF_RUNS)


def damage(path: Path, to: Path, rng: random.Random) -> Path:
    """A damaged copy of a file, or of a folder with one or two files damaged."""
    to.mkdir()
    target = to / path.name
    if path.is_file():
        target.write_bytes(changed_file(path.name, path.read_bytes(), rng))
        return target
    shutil.copytree(path, target)
    files = sorted(each for each in target.rglob("*") if each.is_file())
    for each in rng.sample(files, min(len(files), rng.randint(1, 2))):
        if rng.random() < ODD_FILES:
            _make_odd(each, rng)
        else:
            each.write_bytes(changed_file(each.name, each.read_bytes(), rng))
    return target


def _make_odd(path: Path, rng: random.Random) -> None:
    """Something else where a file was."""
    path.unlink()
    match rng.randrange(5):
        case 0:
            path.mkdir()
        case 1:
            os.mkfifo(path)
        case 2:
            path.symlink_to(path.name)
        case 3:
            path.write_bytes(b"")
        case _:
            pass


def outcome(command: Command, target: Path, folder: Path) -> Found:
    """Run a command on a path in a forked process."""
    out, err = folder / "stdout", folder / "stderr"
    (folder / "out").mkdir(exist_ok=True)
    base = str(ROOT / "sample_traces" / "recompile_shapes")
    words = [*command.before, str(target), *command.after]
    words = [each.replace("OUT", str(folder / "out")) if "OUT/" in each else each for each in words]
    process = os.fork()
    if not process:
        _child(["tpuprof", *(base if each == "BASE" else each for each in words)], out, err)
    _, status = os.waitpid(process, 0)
    with out.open("rb") as file:
        written = file.read(MOST_OUTPUT)
    return Found(os.waitstatus_to_exitcode(status), written, err.read_text("utf-8", "replace"))


def _child(words: list[str], out: Path, err: Path) -> NoReturn:
    """Be the command."""
    status = 99
    try:
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(n, "w", closefd=False), "utf-8") for n in (1, 2))
        faulthandler.enable(sys.__stderr__)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST + 5))
        faulthandler.register(signal.SIGXCPU, file=sys.__stderr__, chain=True)
        faulthandler.dump_traceback_later(HUNG - 2, file=sys.__stderr__)
        signal.alarm(HUNG)
        sys.argv = words
        from tpuprof.cli.entry import main as command

        try:
            command()
            status = 0
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode())
        status = 98
    os._exit(status)


def what_is_wrong(command: Command, found: Found) -> str:
    """What of an outcome is a finding, in a line; empty where it is none."""
    if found.status not in command.statuses:
        lines = found.err.strip().splitlines()
        return f"status {found.status}: {lines[-1][-300:] if lines else 'nothing on stderr'}"
    for mark in ("Traceback", "Warning:"):
        if mark in found.err:
            return next(line for line in found.err.splitlines()[::-1] if mark in line or mark == "Traceback")
    if found.status == 2 and not (found.err.rstrip().endswith("]") or found.out):
        return f"status 2 without a code: {found.err.strip()[-200:]}"
    if found.status == 0 and "--json" in command.after:
        try:
            json.loads(found.out)
        except ValueError as error:
            return f"JSON that is none: {error}"
        return ""
    text = found.out.decode("utf-8", "replace")
    odd = {each for each in text if unicodedata.category(each) == "Cc" and each not in "\n\r\t"}
    return f"output holds {sorted(odd)[:3]!r}" if odd and "--csv" not in command.after else ""


if __name__ == "__main__":
    sys.exit(main())
