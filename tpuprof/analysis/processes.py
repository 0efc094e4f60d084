"""Processes that each read some of a run's hosts, where there are enough files to be worth it.

For the command line alone: a library must not start processes in somebody's program.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from tpuprof import parallel

if TYPE_CHECKING:
    from tpuprof.decode.find import Found

# Below either, a run is read before another process has begun (files; bytes of all files).
FILES_FROM = 4
BYTES_FROM = 8 << 20


class _Pool(ProcessPoolExecutor):
    """A pool that is broken, and says so, also where a process dies while another one is started."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Begin a task. Raises `BrokenProcessPool`."""
        try:
            return super().submit(fn, *args, **kwargs)
        except OSError as error:
            # The pipes of the one that is started are closed already ("handle is closed"), or none can be started.
            raise BrokenProcessPool(str(error)) from error


@contextlib.contextmanager
def processes(found: Found) -> Iterator[Executor | None]:
    """An executor with one process per core, None where one process is as fast."""
    count = min(parallel.threads(), len(found.files))
    if count < 2 or not _is_much(found):
        yield None
        return
    # What is imported here is there in a process that is forked.
    import tpuprof.model.run  # noqa: F401

    with pool_of(count) as pool:
        # They start now, before a thread of this process does.
        pool.submit(int).result()
        yield pool


@contextlib.contextmanager
def pool_of(count: int) -> Iterator[ProcessPoolExecutor]:
    """So many processes, which have ended when the body has. They are forked where this process has no threads."""
    forks = sys.platform == "linux" and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if forks else "spawn")
    others = set(multiprocessing.active_children())
    pool = _Pool(count, mp_context=context, initializer=alone)
    try:
        yield pool
    finally:
        if _is_broken(pool):
            # It ended the processes that it knew of when one died, and would wait for any that began later for ever.
            for each in set(multiprocessing.active_children()) - others:
                each.kill()
        pool.shutdown(wait=True, cancel_futures=True)


def _is_broken(pool: ProcessPoolExecutor) -> bool:
    try:
        pool.submit(int)
    except BrokenExecutor:
        return True
    return False


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
