"""What a command asks of its own process: memory, turns of its threads, how it ends, and what signals do.

None of it belongs into a library: it is for a process that does one thing and ends.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

# glibc's names for what `mallopt` sets (malloc.h).
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8
# Linux's number for "large pages here, where there are any" (madvise).
_MADV_HUGEPAGE = 14
# Arrays up to this size come from memory that was freed before (bytes): the largest that every glibc allows.
_KEPT_UP_TO = 32 * 2**20
_NEVER = 2**31 - 1
# Memory of which large pages are asked for (bytes): what an analysis of three million events takes. Only what is used
# of it counts.
_IN_LARGE_PAGES = 256 * 2**20

# How long a thread that comes back from native work waits for one that runs Python, at most (seconds). At Python's
# own 5 ms those that decode a file mostly wait while modules are imported.
_TURN_S = 0.0003

_leave_at_once = False


def prepare() -> None:
    """Set this process up to analyze one run."""
    # What an analysis builds it keeps to its end: looking for cycles in it finds nothing to free.
    gc.disable()
    sys.setswitchinterval(_TURN_S)
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Reuse what arrays leave behind rather than return it to the system, which clears every page it hands out again.

    Clearing took a tenth of the processor time of an analysis. Does nothing where the C library is not glibc.
    """
    import ctypes

    try:
        libc = ctypes.CDLL(None)
        mallopt = libc.mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(_M_MMAP_THRESHOLD, _KEPT_UP_TO)
    mallopt(_M_TRIM_THRESHOLD, _NEVER)
    # One pool for all threads: arrays are large and few, so threads do not wait for one another.
    mallopt(_M_ARENA_MAX, 1)
    mallopt(_M_TOP_PAD, _IN_LARGE_PAGES)
    _ask_for_large_pages(libc)


def _ask_for_large_pages(libc: ctypes.CDLL) -> None:
    """Have memory come in pages of 2 MB: on a virtual machine each of 4 kB takes some 5 us to be handed out.

    That took 70 of 277 ms of processor time while the model of three million events was built (by hand: getrusage).
    """
    import ctypes
    import mmap

    libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
    libc.malloc.argtypes, libc.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    # What is asked for first makes the pool larger by all of it.
    first = libc.malloc(_KEPT_UP_TO // 2)
    if not first:
        return
    begin = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
    until = libc.sbrk(0)
    if begin < until <= begin + 2 * _IN_LARGE_PAGES:
        libc.madvise(begin, until - begin, _MADV_HUGEPAGE)
    libc.free(first)


def unwind_on_signals() -> None:
    """Let SIGTERM and a closed terminal unwind the command, so that it ends the processes that it started.

    They have sessions of their own, which no signal to the command reaches. A signal that is ignored stays so (nohup).
    """
    import signal
    import threading

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, leave)


def leave_at_once() -> None:
    """Let this process end without taking Python apart, object by object; for commands that leave nothing to finish."""
    global _leave_at_once  # noqa: PLW0603
    _leave_at_once = True


def end(code: object) -> None:
    """End the process here if a command asked for it; what is registered to run at exit runs, output is written out."""
    if not _leave_at_once or not (code is None or isinstance(code, int)):
        return
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)
