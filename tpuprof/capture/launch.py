"""Starts a training program with the capture hook in it, and passes its output and exit status through."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO

from tpuprof.capture import crumbs, marker, oom
from tpuprof.capture.command import with_bootstrap
from tpuprof.capture.lookout import SIGNALS, Lookout, on_the_lookout
from tpuprof.capture.orders import VARIABLE, Orders
from tpuprof.errors import Code, TpuprofError

HOOK = Path(__file__).resolve().parent / "hook"
# Last bytes of the program's stderr that are kept to recognise known errors in.
_TAIL_BYTES = 65_536
_CHUNK = 4096
# What the CPU client says to a place_to_host it cannot run.
OFFLOAD_ON_CPU = b"Unknown custom-call API version"


@dataclass(frozen=True)
class Ended:
    """How the program ended.

    `status` is its exit status as a shell sees it; `signal` the number of the signal that ended it, 0 for none;
    `alive` are the ids of hooked processes that still run.
    """

    status: int
    stderr_tail: bytes
    signal: int = 0
    out_of_memory: bool = False
    processes: list[crumbs.Process] = field(default_factory=list)
    alive: list[int] = field(default_factory=list)


def run(command: list[str], orders: Orders) -> Ended:
    """Run a command with the hook; SIGINT and SIGTERM go to it. Raises `TpuprofError` where it cannot start."""
    folder = marker.create()
    alive: list[int] = []
    try:
        orders.write(folder)
        killed_before = oom.kills()
        status, tail = _run(command, folder)
        processes = crumbs.read(str(folder))
        alive = [process.pid for process in processes if _runs(process.pid)]
    finally:
        marker.remove(folder, keep=bool(alive))
    return Ended(
        status if status >= 0 else 128 - status,
        tail,
        -status if status < 0 else 0,
        oom.kills() > killed_before,
        processes,
        alive,
    )


def _run(command: list[str], folder: Path) -> tuple[int, bytes]:
    with on_the_lookout() as lookout:
        return _watched(command, folder, lookout)


def _watched(command: list[str], folder: Path, lookout: Lookout | None) -> tuple[int, bytes]:
    try:
        process = subprocess.Popen(with_bootstrap(command), env=environment(folder), stderr=subprocess.PIPE)
    except OSError as error:
        raise TpuprofError(
            Code.USAGE,
            f"{command[0]}: cannot be started ({error.strerror}).",
            "Check the command after `--`.",
        ) from error
    tail: deque[bytes] = deque(maxlen=_TAIL_BYTES // _CHUNK)
    reader = threading.Thread(target=_pass_through, args=(process.stderr, tail), daemon=True)
    with _forward_signals(process, lookout):
        reader.start()
        status = process.wait()
    # A daemon the program left behind may hold its stderr open for ever.
    reader.join(timeout=5)
    if reader.is_alive():
        _leave_relay(process.stderr)
    return status, b"".join(tail)


def _leave_relay(stream: IO[bytes] | None) -> None:
    """Have a process of its own pass on what still comes: once we are gone, SIGPIPE would end whoever writes there."""
    with contextlib.suppress(OSError):
        # It copies its stdin to our stderr until nobody can write to the pipe any more.
        subprocess.Popen(["cat"], stdin=stream, stdout=sys.stderr.fileno(), start_new_session=True)


def environment(folder: Path, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """A copy of `base` with the two variables that the hook needs. The hook's folder stands first on PYTHONPATH."""
    environment = dict(base)
    environment[VARIABLE] = str(folder)
    present = environment.get("PYTHONPATH", "")
    environment["PYTHONPATH"] = f"{HOOK}{os.pathsep}{present}" if present else str(HOOK)
    return environment


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in ("Z", "X")


def _pass_through(stream: IO[bytes] | None, tail: deque[bytes]) -> None:
    if stream is None:
        return
    while chunk := os.read(stream.fileno(), _CHUNK):
        tail.append(chunk)
        sys.stderr.buffer.write(chunk)
        sys.stderr.buffer.flush()


@contextmanager
def _forward_signals(process: subprocess.Popen[bytes], lookout: Lookout | None) -> Iterator[None]:
    """Hand SIGTERM and SIGINT on, unless they reached the program by itself."""

    def hand_on(number: int, _frame: FrameType | None) -> None:
        if not _reached(process.pid, number, lookout):
            process.send_signal(number)

    before = {number: signal.signal(number, hand_on) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _reached(pid: int, number: int, lookout: Lookout | None) -> bool:
    """Whether a signal that came to this process came to the program as well, as Ctrl-C does."""
    if lookout is None:
        return number == signal.SIGINT and sys.stdin.isatty()
    try:
        same_group = os.getpgid(pid) == os.getpgrp()
    except ProcessLookupError:  # it has ended
        return True
    return same_group and lookout.came_to_group(number)
