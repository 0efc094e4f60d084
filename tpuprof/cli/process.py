"""What a command asks of its own process: turns of its threads, how it ends, and what signals do.

None of it belongs into a library: it is for a process that does one thing and ends.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable

# How long a thread that comes back from native work waits for one that runs Python, at most (seconds). At Python's
# own 5 ms those that decode a file mostly wait while modules are imported.
_TURN_S = 0.0003

_leave_at_once = False


def prepare() -> None:
    """Set this process up to analyze one run."""
    # What an analysis builds it keeps to its end: looking for cycles in it finds nothing to free.
    gc.disable()
    sys.setswitchinterval(_TURN_S)


def unwind_on_signals() -> None:
    """Let SIGTERM and a closed terminal unwind the command, so that it ends the processes that it started.

    They have sessions of their own, which no signal to the command reaches. A signal that is ignored stays so (nohup).
    """
    import signal

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    _handle(leave, signal.SIGTERM, signal.SIGHUP)


def leave_on_signals(last: Callable[[], object]) -> None:
    """Let Ctrl-C, SIGTERM and a closed terminal end this process at once, after `last`.

    For a process with a thread that waits for input: nothing ends that wait, and unwinding would wait for the thread.
    """
    import signal

    def leave(number: int, _frame: object) -> None:
        last()
        os._exit(128 + number)

    _handle(leave, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _handle(leave: Callable[[int, object], None], *numbers: int) -> None:
    """Let these signals call `leave`: in the main thread, which alone may, and but for those that are ignored."""
    import signal
    import threading

    if threading.current_thread() is threading.main_thread():
        for number in numbers:
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
