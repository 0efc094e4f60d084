"""Processes that each read some of a run's hosts, where there are enough files to be worth it.

For the command line alone: a library must not start processes in somebody's program.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import TYPE_CHECKING

from tpuprof import parallel

if TYPE_CHECKING:
    from tpuprof.decode.find import Found

# Below either, a run is read before another process has begun (files; bytes of all files).
FILES_FROM = 4
BYTES_FROM = 8 << 20


@contextlib.contextmanager
def processes(found: Found) -> Iterator[Executor | None]:
    """An executor with one process per core, None where one process is as fast."""
    count = min(parallel.threads(), len(found.files))
    if count < 2 or not _is_much(found):
        yield None
        return
    # What is imported here is there in a process that is forked; one that has threads must not be forked.
    import tpuprof.model.run  # noqa: F401

    forks = sys.platform == "linux" and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if forks else "spawn")
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=alone)
    try:
        # They start now, before a thread of this process does.
        pool.submit(int).result()
        yield pool
    finally:
        _end(pool)


def _end(pool: ProcessPoolExecutor) -> None:
    """Wait for the pool's end, without processes that were started while another one died.

    A pool that breaks ends the processes that it knows of at that moment; it would wait for later ones for ever.
    """
    if pool._broken:
        for each in list((pool._processes or {}).values()):
            each.kill()
    pool.shutdown(wait=True, cancel_futures=True)


def _is_much(found: Found) -> bool:
    if len(found.files) < FILES_FROM:
        return False
    total = 0
    for path in found.files.values():
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total >= BYTES_FROM


def alone() -> None:
    """Set up a process: its siblings have the other cores, and Ctrl+C is its parent's."""
    parallel.MAX_THREADS = 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
