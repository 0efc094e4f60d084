"""The goodput of every job in a folder, as numbers and as text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuprof.goodput.account import Account, account
from tpuprof.goodput.attempts import attempt_of, series
from tpuprof.goodput.vocabulary import KINDS, PRODUCTIVE
from tpuprof.ledger.reader import read_folder
from tpuprof.records import record
from tpuprof.shown_text import printable
from tpuprof.units import NS_PER_S, counted

if TYPE_CHECKING:
    from rich.console import Console

    from tpuprof.goodput.attempts import Attempt

SCHEMA = "tpuprof.goodput/1"


@record
class JobGoodput:
    """One job: its account, by the attempts of its first rank, and how many processes left a ledger."""

    job: str
    command: str
    attempts: list[Attempt]
    processes: int
    account: Account


def goodput_of(folder: Path) -> list[JobGoodput]:
    """Every job of a folder, oldest first. Raises `TpuprofError` where there is no ledger."""
    found = []
    for job, lanes in series(read_folder(folder)).items():
        attempts = [attempt_of(each) for each in lanes[0]]
        command = lanes[0][0].meta.get("command", [])
        text = " ".join(map(str, command)) if isinstance(command, list) else str(command)
        found.append(JobGoodput(job, text, attempts, len(lanes), account(attempts)))
    return sorted(found, key=lambda each: each.attempts[0].start_ns)


def as_dict(jobs: list[JobGoodput]) -> dict[str, Any]:
    """What `tpuprof goodput --json` prints. Times in seconds, shares from 0 to 1."""
    return {"schema": SCHEMA, "jobs": [_job(each) for each in jobs]}


def _job(job: JobGoodput) -> dict[str, Any]:
    total = job.account
    return {
        "job": job.job,
        "command": job.command,
        "start_seconds": job.attempts[0].start_ns / NS_PER_S,
        "wall_seconds": total.wall_ns / NS_PER_S,
        "goodput": total.goodput,
        "seconds": {name: spent / NS_PER_S for name, spent in total.kinds.items()},
        "custom_seconds": {name: spent / NS_PER_S for name, spent in total.custom.items()},
        "productive_parts_seconds": {name: spent / NS_PER_S for name, spent in total.parts.items()},
        "kept_steps": total.kept_steps,
        "wasted_steps": total.wasted_steps,
        "last_step": total.last_step,
        "disruptions": total.disruptions,
        "processes": job.processes,
        "attempts": [
            {
                "name": each.name,
                "start_seconds": each.start_ns / NS_PER_S,
                "end_seconds": each.end_ns / NS_PER_S,
                "steps": len(each.steps.number),
                "ended": each.ended or None,
            }
            for each in job.attempts
        ],
        "notes": total.notes,
    }


def render(jobs: list[JobGoodput], console: Console) -> None:
    """Print the account of each job: first the sentence, then where the time went."""
    for at, job in enumerate(jobs):
        if at:
            console.print()
        if len(jobs) > 1:
            console.print(printable(f"Job {job.job}"), style="bold", markup=False)
        _render(job, console)


def _render(job: JobGoodput, console: Console) -> None:
    from rich.table import Table

    total = job.account
    console.print(_sentence(total), style="bold", markup=False)
    console.print(
        printable(
            f"{job.command or 'unknown command'}: {counted(len(job.attempts), 'attempt')}, "
            f"{counted(total.kept_steps, 'step')} kept, "
            f"{total.wasted_steps} done again"
        ),
        markup=False,
    )
    table = Table("where the time went", "time", "share", "meaning", box=None, pad_edge=False)
    for kind in KINDS:
        spent = total.kinds[kind.name]
        if spent or kind.name == PRODUCTIVE:
            share_of = f"{100 * spent / total.wall_ns:.1f} %" if total.wall_ns else ""
            table.add_row(kind.title, duration(spent), share_of, kind.meaning)
    console.print(table)
    for name, spent in sorted({**total.custom}.items()):
        if spent:
            console.print(
                f"  in stalls and marked phases, {printable(name)}: {duration(spent)}", markup=False
            )
    for name, spent in total.parts.items():
        if spent:
            console.print(f"  in productive steps, {printable(name)}: {duration(spent)}", markup=False)
    for note in total.notes:
        console.print(f"Note: {printable(note)}", markup=False)


def _sentence(total: Account) -> str:
    if total.goodput is not None:
        return f"Goodput {100 * total.goodput:.1f} % of {duration(total.wall_ns)}"
    if not total.damaged:
        return "Goodput unknown: no time passed"
    return f"Goodput unknown of {duration(total.wall_ns)}: a ledger is damaged, and no step of it can be read"


def duration(nanoseconds: float) -> str:
    """A length of time for people: `12.3 s`, `4 min 5 s`, `3 h 7 min`, `2 d 4 h`."""
    seconds = nanoseconds / NS_PER_S
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
