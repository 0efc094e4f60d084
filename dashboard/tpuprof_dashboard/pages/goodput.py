"""Where all wall time of a watched job went, over its attempts, and what happened meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.errors import TpuprofError
from tpuprof.goodput.jobs import JobGoodput, duration, goodput_of
from tpuprof.goodput.vocabulary import KINDS
from tpuprof.shown_text import printable
from tpuprof.watch.follow import JobState, read_jobs
from tpuprof_dashboard.components.layout import empty, plain_table, section, tile, tiles
from tpuprof_dashboard.pages.job import anomalies
from tpuprof_dashboard.pages.page import Page
from tpuprof_dashboard.watched import none_watched, watched_folders

if TYPE_CHECKING:
    from pathlib import Path

    from tpuprof_dashboard.store import Store


def _of_store(store: Store) -> list[Any]:
    folders = watched_folders(store.given())
    return [part for folder in folders for part in _folder(folder)] or [none_watched()]


def _folder(folder: Path) -> list[Any]:
    try:
        jobs = goodput_of(folder)
        states = {each.job: each for each in read_jobs(folder)}
    except (TpuprofError, OSError) as error:
        return [section(folder.name, empty("The ledger cannot be read", str(error)))]
    return [
        part for at, job in enumerate(jobs) for part in _job(f"{folder.name}-{at}", job, states.get(job.job))
    ]


def _job(key: str, job: JobGoodput, state: JobState | None) -> list[Any]:
    total = job.account
    share = f"{100 * total.goodput:.1f} %" if total.goodput is not None else "unknown"
    figures = tiles(
        tile("Goodput", share, "of all time since the first start was productive steps"),
        tile("Time", duration(total.wall_ns), f"{len(job.attempts)} attempts, {job.processes} processes"),
        tile("Steps kept", f"{total.kept_steps:,}", f"{total.wasted_steps:,} were done again"),
        tile("Last step", str(total.last_step) if total.last_step is not None else "none", "of those kept"),
    )
    rows = [
        (
            kind.title,
            duration(total.kinds[kind.name]),
            f"{100 * total.kinds[kind.name] / total.wall_ns:.1f} %",
            kind.meaning,
        )
        for kind in KINDS
        if total.kinds[kind.name] and total.wall_ns
    ]
    columns = ("where the time went", "time", "share", "meaning")
    parts = [
        section(printable(job.command or job.job), figures, plain_table(f"goodput-{key}", columns, rows))
    ]
    attempts = [
        (
            printable(each.name),
            duration(each.end_ns - each.start_ns),
            f"{len(each.steps.number):,}",
            each.ended or "was killed, or runs",
        )
        for each in job.attempts
    ]
    parts.append(
        section(
            "Attempts", plain_table(f"attempts-{key}", ("attempt", "time", "steps", "how it ended"), attempts)
        )
    )
    if state is not None and state.anomalies:
        parts.append(anomalies(key, state))
    return parts


PAGE = Page(
    "goodput",
    "Goodput",
    "Where did all wall time of a watched job go?",
    of_store=_of_store,
    compares=False,
)
