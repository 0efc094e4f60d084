"""Runs of so many hosts that the dashboard holds summaries of them, and no events."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuprof.decode.find import Found
    from tpuprof.pod.analyze import Progress
    from tpuprof.report.schema import Report


def as_pod(found: Found, tell: Callable[[float, str], None]) -> Report | None:
    """The Report of a run of many hosts, None of fewer; `tell` gets the share that is done, and what to show."""
    from tpuprof.pod.analyze import POD_FROM, analyze_pod
    from tpuprof.pod.hosts import hosts_found

    if len(found.files) < POD_FROM:
        return None
    hosts = hosts_found(found)

    def show(now: Progress) -> None:
        done = f"{now.done:,} {'host' if now.done == 1 else 'hosts'} done"
        tell((now.done + now.failed) / len(hosts.jobs), f"{done}, {now.left:,} left")

    return analyze_pod(hosts, progress=show)
