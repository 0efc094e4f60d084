"""Ends a child process that leads a group of its own, with all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess


def end_group(child: subprocess.Popen[bytes]) -> None:
    """End the child's group, and take the child's status if nobody has.

    `Popen.wait` is not used. Where a signal's handler raises an exception inside of it, as Ctrl-C does, its lock may
    stay taken, and the next `wait` then waits forever (seen in Python 3.11).
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    if child.returncode is None:
        child.returncode = _status_of(child.pid)


def _status_of(pid: int) -> int:
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        # Something else took its status, which is therefore unknown; the signal above ended it.
        return -signal.SIGKILL
