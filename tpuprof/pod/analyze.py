"""From a path or URL of many hosts to one Report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tpuprof.errors import Code, TpuprofError
from tpuprof.pod.execute import summarise_all
from tpuprof.pod.hosts import Hosts, Job, hosts_of
from tpuprof.pod.merge import Asked, merge
from tpuprof.pod.pack import from_bytes
from tpuprof.pod.summary import HostSummary
from tpuprof.records import record
from tpuprof.report.schema import Report

# From this many hosts on a run is analyzed as a pod (hosts): the plain report lists ops by device and transfers by
# host, which fewer people read the more hosts there are, and holds all events of all hosts in memory at once.
POD_FROM = 33


@record(frozen=True)
class Progress:
    """Hosts that are done, that failed, and that are left."""

    done: int
    failed: int
    left: int


def analyze_pod(
    path: str | Path | Hosts,
    *,
    sample: int = 0,
    dask: str = "",
    progress: Callable[[Progress], None] = lambda _: None,
) -> Report:
    """The Report of many hosts, here or at a URL; a host that cannot be read is named in it.

    `sample` is how many hosts to analyze, 0 for all. `dask` is where, see `summarise_all`. Raises `TpuprofError`.
    """
    hosts = path if isinstance(path, Hosts) else hosts_of(path)
    if not hosts.jobs:
        raise TpuprofError(
            Code.NO_TRACE, f"{path}: no profile below this folder.", "Give the folder your profiler wrote to."
        )
    jobs = sampled(hosts.jobs, sample)
    summaries: list[HostSummary] = []
    failed: dict[str, str] = {}
    for done in summarise_all(jobs, dask):
        if done.summary is None:
            failed[done.name] = done.why
        else:
            summaries.append(from_bytes(done.summary))
        progress(Progress(len(summaries), len(failed), len(jobs) - len(summaries) - len(failed)))
    note = what_is_missed(len(jobs), len(hosts.jobs))
    asked = Asked(
        len(hosts.jobs),
        failed,
        hosts.info,
        hosts.warnings,
        note,
        hosts.notes,
        hosts.proofs,
        hosts.span_notes,
    )
    return merge(summaries, asked)


def sampled(jobs: list[Job], count: int) -> list[Job]:
    """That many hosts at even distances by name, the first and the last included; all where `count` is 0."""
    if not 0 < count < len(jobs):
        return jobs
    chosen = np.unique(np.linspace(0, len(jobs) - 1, count).round().astype(np.int64))
    return [jobs[row] for row in chosen.tolist()]


def what_is_missed(analyzed: int, of: int) -> str:
    """What a sample may miss, empty where all hosts were analyzed."""
    if analyzed >= of:
        return ""
    return (
        f"{analyzed:,} of {of:,} hosts were analyzed, at even distances by name. What a single host does is missed "
        f"with a chance of {1 - analyzed / of:.0%}, what five hosts do of {_missed(5, analyzed, of):.0%}. "
        "Lag is against the middle of the hosts that were analyzed."
    )


def _missed(bad: int, analyzed: int, of: int) -> float:
    """The chance that none of the bad hosts is in a sample."""
    chance = 1.0
    for each in range(bad):
        chance *= max(of - analyzed - each, 0) / max(of - each, 1)
    return chance
