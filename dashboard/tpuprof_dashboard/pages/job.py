"""A watched job as it goes: its speed, how its hosts keep up, and what happened; looked at every few seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dash import Output, html

from tpuprof.errors import TpuprofError
from tpuprof.goodput.jobs import duration
from tpuprof.shown_text import printable
from tpuprof.units import MS_PER_S, NS_PER_S
from tpuprof.watch.follow import Host, JobState, alive, lost_to, read_jobs
from tpuprof.watch.status import WRITE_SECONDS
from tpuprof_dashboard.components.asking import asked, asking, register_asking
from tpuprof_dashboard.components.layout import empty, plain_table, section, tile, tiles
from tpuprof_dashboard.pages.page import Page
from tpuprof_dashboard.watched import none_watched, watched_folders

if TYPE_CHECKING:
    from pathlib import Path

    from dash import Dash

    from tpuprof_dashboard.store import Store

# Hosts shown at most (count): the silent ones and the slowest come first.
MAX_HOSTS = 32
_HOSTS = ("host", "rank", "step", "step time", "relative", "own best", "last sign of life", "state")
_HOSTS_NOTE = (
    "Relative: the median host's own work per step by this host's. Own best: its own best by its own work now. "
    "1 keeps up, below 0.8 is slow. Own work leaves out waits for the device."
)
# What processes say in percent, by its name in their status, with its title here.
_PERCENT = {"mfu": "MFU", "tpu_duty_cycle": "Duty cycle", "hbm_utilization": "Device memory in use"}
_ANOMALIES = ("anomaly", "step", "host", "what happened", "verdict of its capture")


def _of_store(store: Store) -> list[Any]:
    look = asking("job-look", MS_PER_S * WRITE_SECONDS)
    return [html.Div(_now(store), id="job-now"), *look]


def _now(store: Store) -> list[Any]:
    folders = watched_folders(store.given())
    return [part for folder in folders for part in _folder(folder)] or [none_watched()]


def _register(app: Dash, store: Store) -> None:
    register_asking(app, "job-look")

    @app.callback(Output("job-now", "children"), asked("job-look"), prevent_initial_call=True)
    def look(_ticks: int | None) -> list[Any]:
        return _now(store)


def _folder(folder: Path) -> list[Any]:
    try:
        jobs = read_jobs(folder)
    except (TpuprofError, OSError) as error:
        return [section(printable(folder.name), empty("The job cannot be read", str(error)))]
    if not jobs:
        return [
            section(printable(folder.name), empty("The job cannot be read", "No status file can be read."))
        ]
    return [part for at, job in enumerate(jobs) for part in _job(f"{printable(folder.name)}-{at}", job)]


def _job(key: str, job: JobState) -> list[Any]:
    known = job.step_seconds is not None
    total = job.account
    share = f"{100 * total.goodput:.1f} %" if total is not None and total.goodput is not None else "unknown"
    figures = tiles(
        tile("Processes", alive(job), "a process gives a sign of life every few seconds"),
        tile("Step", f"{job.step:,}" if job.step is not None else "unknown", "the newest of all processes"),
        tile(
            "Step time",
            f"{MS_PER_S * (job.step_seconds or 0):.1f} ms" if known else "unknown",
            "the median of the processes' medians",
        ),
        tile(
            "Samples per second",
            f"{job.samples_per_second:,.1f}" if job.samples_per_second is not None else "unknown",
            "of all processes; the program states them by `tpuprof.step(number, samples=...)`",
        ),
        tile("Goodput", share, f"lost: {lost_to(total)}" if total is not None else "no ledger yet"),
        *(_percent(title, name, job) for name, title in _PERCENT.items()),
    )
    parts = [section(f"Job {printable(job.job)}", figures)]
    parts += [empty("Note", printable(problem)) for problem in job.problems]
    parts.append(_hosts(key, job))
    if job.anomalies:
        parts.append(anomalies(key, job))
    return parts


def _percent(title: str, name: str, job: JobState) -> Any:
    value, why = job.percent.get(name), job.unavailable.get(name, "no process says")
    return tile(
        title,
        f"{value:.1f} %" if value is not None else "unavailable",
        "mean of the processes" if value is not None else why,
    )


def _hosts(key: str, job: JobState) -> Any:
    silent = job.silent
    rows = list(dict.fromkeys([*silent, *job.slowest(), *job.hosts]))
    title = "Hosts"
    if len(rows) > MAX_HOSTS:
        title = f"Hosts: {MAX_HOSTS} of {len(rows)}, silent and slow ones first"
    shown = [_host(each, silent=each in silent) for each in rows[:MAX_HOSTS]]
    return section(title, plain_table(f"hosts-{key}", _HOSTS, shown), note=_HOSTS_NOTE)


def _host(host: Host, *, silent: bool) -> tuple[str, ...]:
    state = f"ended ({printable(host.ended)})" if host.ended else "no sign of life" if silent else "runs"
    return (
        printable(host.name),
        str(host.rank) if host.rank is not None else "unknown",
        f"{host.step:,}" if host.step is not None else "none yet",
        f"{MS_PER_S * host.step_seconds:.1f} ms" if host.step_seconds is not None else "unknown",
        _share(host.relative),
        _share(host.own_best),
        f"{duration(host.silent_seconds * NS_PER_S)} ago",
        state,
    )


def _share(value: float | None) -> str:
    return f"{value:.2f}" if value is not None else "unknown"


def anomalies(key: str, job: JobState) -> Any:
    """The newest anomalies of a job, with what their captures say."""
    shown = [
        (
            printable(str(each.get("kind"))),
            printable(str(each.get("step"))),
            printable(str(each.get("host"))),
            printable(str(each.get("message"))),
            printable(str(each.get("verdict") or "none")),
        )
        for each in job.anomalies
    ]
    return section("Anomalies", plain_table(f"anomalies-{key}", _ANOMALIES, shown))


PAGE = Page(
    "job",
    "Live job",
    "How is a watched job doing now?",
    of_store=_of_store,
    register=_register,
    compares=False,
)
