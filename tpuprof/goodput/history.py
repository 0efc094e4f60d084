"""Runs of a job one after the other: how long steps take and how much time is productive, and where it got worse."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.goodput.account import account
from tpuprof.goodput.attempts import attempt_of, series
from tpuprof.goodput.jobs import duration
from tpuprof.goodput.vocabulary import STARTUP
from tpuprof.ledger.reader import Ledger, read_folder
from tpuprof.records import record
from tpuprof.shown_text import printable
from tpuprof.units import MS_PER_S, NS_PER_S, counted

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = "tpuprof.history/1"
# A run is a regression if its median step takes this much longer than the median of the runs before it (ratio), and
# lies this many of their spreads above: with fewer than three runs before it the ratio alone decides, and says so.
WORSE_RATIO = 1.05
WORSE_SPREADS = 3.0
SPREAD_RUNS = 3
# Steps that a run needs for its median to count (steps).
MIN_STEPS = 20


@record
class RunSummary:
    """One attempt of a job. Times in seconds; None where there were too few steps."""

    job: str
    name: str
    commit: str | None
    start_seconds: float
    steps: int
    step_seconds: float | None
    compile_seconds: float
    goodput: float | None
    anomalies: int
    ended: str


@record
class Regression:
    """The first run whose steps take longer than those before it."""

    run: RunSummary
    before_seconds: float
    ratio: float
    certain: bool


def history_of(folder: Path) -> dict[str, list[RunSummary]]:
    """Summaries of all runs of each job, oldest first. Raises `TpuprofError` where there is no ledger."""
    return {
        job: [_summary(job, each) for each in lanes[0]] for job, lanes in series(read_folder(folder)).items()
    }


def _summary(job: str, ledger: Ledger) -> RunSummary:
    columns = ledger.columns
    quiet = columns["duration_ns"][columns["compiles"] <= 0]
    total = account([attempt_of(ledger)])
    commit = ledger.meta.get("commit")
    return RunSummary(
        job,
        ledger.name,
        str(commit) if commit else None,
        ledger.wall_ns(ledger.started_ns) / NS_PER_S,
        ledger.steps,
        float(np.sort(quiet)[len(quiet) // 2]) / NS_PER_S if len(quiet) >= MIN_STEPS else None,
        total.kinds[STARTUP] / NS_PER_S,
        total.goodput,
        sum(each["kind"] == "anomaly" for each in ledger.events),
        ledger.ended,
    )


def first_regression(runs: list[RunSummary]) -> Regression | None:
    """The first run whose median step is longer than those of the runs before it, beyond their noise."""
    known = [each for each in runs if each.step_seconds is not None]
    for at in range(1, len(known)):
        before = [float(each.step_seconds or 0) for each in known[:at]]
        usual, now = statistics.median(before), float(known[at].step_seconds or 0)
        spread = statistics.pstdev(before) if at >= SPREAD_RUNS else 0.0
        if now > WORSE_RATIO * usual and now > usual + WORSE_SPREADS * spread:
            return Regression(known[at], usual, now / usual, at >= SPREAD_RUNS)
    return None


def as_dict(jobs: dict[str, list[RunSummary]]) -> dict[str, Any]:
    """What `tpuprof history --json` prints."""
    found = []
    for job, runs in jobs.items():
        worse = first_regression(runs)
        found.append(
            {
                "job": job,
                "runs": [vars(each) for each in runs],
                "first_regression": None
                if worse is None
                else {
                    "run": worse.run.name,
                    "commit": worse.run.commit,
                    "ratio": worse.ratio,
                    "before_seconds": worse.before_seconds,
                    "certain": worse.certain,
                },
            }
        )
    return {"schema": SCHEMA, "jobs": found}


def render(jobs: dict[str, list[RunSummary]], console: Console) -> None:
    """Print the runs of each job, and the first that got worse."""
    from rich.table import Table
    from rich.text import Text

    for job, runs in jobs.items():
        console.print(printable(f"Job {job}: {counted(len(runs), 'run')}"), style="bold", markup=False)
        table = Table(
            "run",
            "commit",
            "steps",
            "step time",
            "compilation",
            "goodput",
            "anomalies",
            box=None,
            pad_edge=False,
        )
        for each in runs:
            table.add_row(
                Text(printable(each.name)),
                Text(printable((each.commit or "unknown")[:10])),
                str(each.steps),
                f"{each.step_seconds * MS_PER_S:.1f} ms"
                if each.step_seconds is not None
                else "too few steps",
                duration(each.compile_seconds * NS_PER_S),
                f"{100 * each.goodput:.1f} %" if each.goodput is not None else "unknown",
                str(each.anomalies),
            )
        console.print(table)
        console.print(printable(_sentence(first_regression(runs))), markup=False)


def _sentence(worse: Regression | None) -> str:
    if worse is None:
        return "No run's steps take longer than those of the runs before it, beyond their noise."
    at = f"commit {worse.run.commit[:10]}" if worse.run.commit else f"run {worse.run.name}"
    sure = "" if worse.certain else " Few runs are before it: this may be noise."
    return (
        f"First regression: {at}: {worse.ratio:.2f} times the step time of the runs before it "
        f"({worse.before_seconds * MS_PER_S:.1f} ms).{sure}"
    )
