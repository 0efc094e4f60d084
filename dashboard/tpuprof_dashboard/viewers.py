"""Starts TensorBoard with XProf on a run's folder, for whoever sits at this machine."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from tpuprof.run_folder import PLUGINS

# How long TensorBoard may take until it answers (seconds); it imports for some ten on a slow machine.
START_WITHIN = 60.0
_LOOK_EVERY = 0.2
# How long it may take to end before it is killed (seconds).
END_WITHIN = 5.0
# Servers running at a time: each takes some hundred MB.
MAX_RUNNING = 4


def missing_viewer() -> str:
    """Why XProf cannot be opened here; empty where TensorBoard and its profile plugin are installed."""
    absent = [name for name in ("tensorboard", "xprof") if importlib.util.find_spec(name) is None]
    return f"not installed here: {', '.join(absent)} (pip install tensorboard xprof)" if absent else ""


def logdir_of(path: Path) -> Path | None:
    """The folder that TensorBoard reads a capture from: the one above `plugins`; None where there is none."""
    return next((each.parent for each in (path, *path.parents) if each.name == PLUGINS), None)


class Viewers:
    """TensorBoard servers on loopback, one per folder. The dashboard ends them. Safe to use from several threads."""

    def __init__(self) -> None:
        self._running: dict[Path, tuple[subprocess.Popen[bytes], int]] = {}
        self._lock = threading.Lock()

    def open(self, folder: Path) -> str:
        """The address of a server on this folder, started where there is none.

        Raises `OSError` where it ends at once or does not answer within `START_WITHIN`.
        """
        with self._lock:
            process, port = self._running.get(folder, (None, 0))
            if process is None or process.poll() is not None:
                process, port = self._start(folder)
        until = time.monotonic() + START_WITHIN
        while not _answers(port):
            if process.poll() is not None:
                raise OSError(f"TensorBoard ended with status {process.returncode}")
            if time.monotonic() > until:
                raise OSError(f"TensorBoard does not answer within {START_WITHIN:g} s")
            time.sleep(_LOOK_EVERY)
        return f"http://127.0.0.1:{port}/#profile"

    def close(self) -> None:
        """End all servers."""
        with self._lock:
            for process, _ in self._running.values():
                _signal(process, signal.SIGTERM)
            for process, _ in self._running.values():
                _ended(process)
            self._running.clear()

    def _start(self, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
        while len(self._running) >= MAX_RUNNING:
            oldest, _ = self._running.pop(next(iter(self._running)))
            _signal(oldest, signal.SIGTERM)
            _ended(oldest)
        port = _free_port()
        process = subprocess.Popen(
            _command(folder, port),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._running[folder] = (process, port)
        return process, port


def _command(folder: Path, port: int) -> list[str]:
    program = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder)]
    return [*program, "--host", "127.0.0.1", "--port", str(port)]


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Reach the server and what it has started: it leads a group of its own.

    Of a server that has ended, the number may be that of another program's group by now.
    """
    if process.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, number)


def _ended(process: subprocess.Popen[bytes]) -> None:
    """Wait for a server to end; one that goes on is killed."""
    try:
        process.wait(END_WITHIN)
    except subprocess.TimeoutExpired:
        _signal(process, signal.SIGKILL)
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return True
    except OSError:
        return False
