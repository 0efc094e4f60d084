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
    return min(cores(), MAX_THREADS)


def cores() -> int:
    """How many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
    if threads() < 2 or _ends():
        return work
    outcome: list[_Outcome[_R]] = []
    thread = threading.Thread(target=lambda: outcome.append(_outcome_of(work)))
    try:
        thread.start()
    except RuntimeError:  # the machine has no more
        return work

    def result() -> _R:
        thread.join()
        return _value_of(outcome[0])

    return result


def in_threads(work: Callable[[_T], _R], tasks: Sequence[_T], *, beside: int = 0) -> list[_R]:
    """`work` of each task, in order; on the calling thread where there is but one core or task.

    `beside` is how many threads work meanwhile: more of them than cores take turns in Python and slow each other.
    Raises what the first task raises that fails; none is begun after one failed.
    """
    count = min(threads() - beside, len(tasks))
    if count < 2 or _ends():
        return [work(task) for task in tasks]
    waiting = iter(enumerate(tasks))  # each is handed out once: Python takes the next of it in one go
    outcomes: dict[int, _Outcome[_R]] = {}

    def worker() -> None:
        for at, task in waiting:
            outcomes[at] = _outcome_of(lambda task=task: work(task))  # type: ignore[misc]
            if outcomes[at][1] is not None:
                for _ in waiting:  # nobody else begins another one
                    pass

    started = _started([threading.Thread(target=worker) for _ in range(count)])
    if not started:
        worker()
    for thread in started:
        thread.join()
    return [_value_of(outcomes[at]) for at in sorted(outcomes)]


# What came of work: its result, or its error.
_Outcome = tuple[_R | None, BaseException | None]


def _outcome_of(work: Callable[[], _R]) -> _Outcome[_R]:
    try:
        return work(), None
    except BaseException as error:  # whoever waits for the result gets it
        return None, error


def _value_of(outcome: _Outcome[_R]) -> _R:
    value, error = outcome
    if error is not None:
        raise error
    return value  # type: ignore[return-value]


def _started(many: list[threading.Thread]) -> list[threading.Thread]:
    """Those of the threads that could be started."""
    for at, thread in enumerate(many):
        try:
            thread.start()
        except RuntimeError:  # the machine has no more
            return many[:at]
    return many


def _ends() -> bool:
    """Whether the program is about to end: Python has waited for its threads, and must not get new ones."""
    return not threading.main_thread().is_alive()
