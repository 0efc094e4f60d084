"""Starts a training program with the capture hook in it, and passes its output and exit status through."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from tpuprof.capture.child import VARIABLE, Orders
from tpuprof.errors import Code, TpuprofError

HOOK = Path(__file__).resolve().parent / "hook"
# Last bytes of the program's stderr that are kept to recognise known errors in.
_TAIL_BYTES = 65_536
_CHUNK = 4096
# What the CPU client says to a place_to_host it cannot run.
OFFLOAD_ON_CPU = b"Unknown custom-call API version"


@dataclass(frozen=True)
class Ended:
    """How the program ended: its exit status as a shell sees it, and the end of its stderr."""

    status: int
    stderr_tail: bytes


def run(command: list[str], orders: Orders) -> Ended:
    """Run a command with the hook; SIGINT and SIGTERM go to it. Raises `TpuprofError` where it cannot start."""
    environment = dict(os.environ)
    environment[VARIABLE] = orders.to_environment()
    environment["PYTHONPATH"] = os.pathsep.join(_python_path(environment.get("PYTHONPATH", "")))
    try:
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    except OSError as error:
        raise TpuprofError(
            Code.USAGE,
            f"{command[0]}: cannot be started ({error.strerror}).",
            "Check the command after `--`.",
        ) from error
    tail: deque[bytes] = deque(maxlen=_TAIL_BYTES // _CHUNK)
    reader = threading.Thread(target=_pass_through, args=(process.stderr, tail), daemon=True)
    with _forward_signals(process):
        reader.start()
        status = process.wait()
    # A daemon the program left behind may hold its stderr open for ever.
    reader.join(timeout=5)
    return Ended(status if status >= 0 else 128 - status, b"".join(tail))


def _python_path(present: str) -> list[str]:
    """The hook first; tpuprof's own folder too, for programs run by an interpreter that lacks it, last."""
    package = Path(__file__).resolve().parents[2]
    return [str(HOOK), *[part for part in present.split(os.pathsep) if part], str(package)]


def _pass_through(stream: IO[bytes] | None, tail: deque[bytes]) -> None:
    if stream is None:
        return
    while chunk := os.read(stream.fileno(), _CHUNK):
        tail.append(chunk)
        sys.stderr.buffer.write(chunk)
        sys.stderr.buffer.flush()


@contextmanager
def _forward_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Hand SIGTERM on; SIGINT from a terminal reaches the program by itself, so it is only not to end us."""

    def hand_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    def ignore(_number: int, _frame: FrameType | None) -> None:
        if not sys.stdin.isatty():
            process.send_signal(signal.SIGINT)

    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, hand_on),
        signal.SIGINT: signal.signal(signal.SIGINT, ignore),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
