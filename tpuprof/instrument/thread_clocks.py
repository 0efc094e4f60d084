"""How long each thread of Python's has run, and whether one waits for another to end."""

from __future__ import annotations

import threading
import time
from functools import partial
from itertools import islice, tee

from tpuprof.instrument.no_collections import without_collections
from tpuprof.instrument.thread_frames import Place, numbers_of_threads
from tpuprof.own_events import THREAD_JOINS

# Threads whose CPU time is read at most (threads).
MAX_THREADS = 32


def cpu_of_threads() -> dict[int, int]:
    """CPU time (ns) of the threads that run Python.

    One call of C code finds the threads and reads their clocks: Python could switch threads between two calls, a thread
    could end, and the clock of a thread that has ended must not be asked for. No frame is held either.
    """
    idents, again = tee(islice(numbers_of_threads(), MAX_THREADS))
    clocks = map(time.clock_gettime_ns, map(time.pthread_getcpuclockid, again))
    return without_collections(partial(dict, zip(idents, clocks, strict=False)))


def joins(places: list[Place] | None) -> bool:
    """Whether a thread with this stack waits for the end of another one."""
    innermost = (code for code, _ in (places or ())[:2])
    return any(code.co_name in THREAD_JOINS and code.co_filename == threading.__file__ for code in innermost)
