"""Runs of many hosts for commands: who analyzes them, and what is shown meanwhile."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuprof.pod.analyze import Progress
    from tpuprof.pod.hosts import Hosts
    from tpuprof.report.schema import Report

# Between two lines of progress (s): a terminal's line is replaced, a log's lines stay.
_EVERY_TERMINAL_S, _EVERY_LOG_S = 0.5, 30.0


def is_pod(path: Path) -> bool:
    """Whether a URL has so many hosts that no process should hold all of them."""
    from tpuprof.pod.analyze import POD_FROM
    from tpuprof.run_folder import PROFILE_SUFFIXES
    from tpuprof.storage.address import url_of
    from tpuprof.storage.mirror import listing

    url = url_of(path)
    if url is None:
        return False
    entries, _ = listing(url)
    return sum(each.below.endswith(PROFILE_SUFFIXES) for each in entries) >= POD_FROM


def pod_report(path: Path | Hosts, *, sample: int = 0, dask: str = "") -> Report:
    """The Report of a pod, with progress on stderr. Raises `TpuprofError`."""
    from tpuprof.pod.analyze import analyze_pod

    show = _shown_progress()
    try:
        return analyze_pod(path, sample=sample, dask=dask, progress=show)
    finally:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _shown_progress() -> Callable[[Progress], None]:
    begun = last = time.monotonic()
    terminal = sys.stderr.isatty()
    every = _EVERY_TERMINAL_S if terminal else _EVERY_LOG_S

    def show(now: Progress) -> None:
        nonlocal last
        moment = time.monotonic()
        if moment - last < every or not now.left:
            return
        last = moment
        done = f"{now.done:,} {'host' if now.done == 1 else 'hosts'} done"
        text = f"tpuprof: {done}, {now.failed:,} failed, {now.left:,} left ({moment - begun:.0f} s)"
        print(
            f"\r\x1b[K{text}" if terminal else text, end="" if terminal else "\n", file=sys.stderr, flush=True
        )

    return show
