"""Does the same to each of many things on several cores.

Threads, not processes: the work meant here is numpy's and the native reader's, which leave Python to others. A program
that ends starts no more threads: what is written then is worked out on the thread that writes it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")
# More threads than this wait for memory, not for a core.
MAX_THREADS = 8
_here = threading.local()


def threads() -> int:
    """How many threads are worth having here."""
    if getattr(_here, "alone", False):
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MAX_THREADS)


@contextlib.contextmanager
def on_this_thread() -> Iterator[None]:
    """Inside, this thread does all the work itself: in a program that trains, cores and threads are the program's."""
    before = getattr(_here, "alone", False)
    _here.alone = True
    try:
        yield
    finally:
        _here.alone = before


def begin(work: Callable[[], _R]) -> Callable[[], _R]:
    """Begin `work` on another core; what is returned waits for its result.

    Where there is but one core, that is when the work is done.
    """
    if threads() < 2:
        return work
    try:
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(1)
        result = pool.submit(work).result
    except RuntimeError:
        return work
    pool.shutdown(wait=False)
    return result


def in_threads(work: Callable[[_T], _R], tasks: Sequence[_T], *, beside: int = 0) -> list[_R]:
    """`work` of each task, in order; on the calling thread where there is but one core or task.

    `beside` is how many threads work meanwhile: more of them than cores take turns in Python and slow each other.
    """
    count = min(threads() - beside, len(tasks))
    if count < 2:
        return [work(task) for task in tasks]
    try:
        from concurrent.futures import ThreadPoolExecutor
    except RuntimeError:  # its import registers what is to be done at the end, which has begun
        return [work(task) for task in tasks]
    with ThreadPoolExecutor(count) as pool:
        try:
            results = pool.map(work, tasks)
        except RuntimeError:
            return [work(task) for task in tasks]
        return list(results)
