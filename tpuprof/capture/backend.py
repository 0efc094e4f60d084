"""Starts and stops torch_xla's profiler in this process, and finds the file it wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tpuprof.capture.asked_server import AskedServer
from tpuprof.capture.profiler_session import OurSession
from tpuprof.capture.scratch import new_scratch, remove_scratch
from tpuprof.errors import Code, TpuprofError
from tpuprof.instrument.profiler_on import profiler_on
from tpuprof.instrument.state import xlac
from tpuprof.run_folder import profile_name

_XLA_PROFILER = "torch_xla.debug.profiler"


class Backend(Protocol):
    """A way to record this process. `repeats`: whether it can do so more than once."""

    repeats: bool

    def start(self) -> None:
        """Begin recording. Raises `ProfilerTakenError` where the program's own session kept it from beginning."""

    def stop(self) -> Path | None:
        """End recording; the profile's file, None where none was written."""

    def clean_up(self) -> None:
        """Remove scratch files. Doing it twice is harmless."""

    def busy(self) -> bool:
        """Whether the program's own session keeps us from recording."""

    def give_way_by(self, end: Callable[[], None]) -> None:
        """Call `end` before the program opens a session of its own, where that can be seen."""

    def forget(self) -> None:
        """In a forked process: the recording is the parent's."""


class InProcess:
    """`xp.start_trace` and `xp.stop_trace`, which torch_xla has from 2.7 on.

    A recording of the program's own comes first, by these functions or by a profiler server that somebody asked.
    """

    repeats = True

    def __init__(self) -> None:
        self._scratch: Path | None = None
        self._scratches: list[Path] = []
        self._session = OurSession(_XLA_PROFILER, xlac)
        self._server = AskedServer()

    def start(self) -> None:
        """Begin recording into a scratch folder."""
        import torch_xla.debug.profiler as xp

        self._scratch = new_scratch()
        self._scratches.append(self._scratch)
        folder = str(self._scratch)
        self._session.begin(lambda: xp.start_trace(folder), xp.stop_trace)

    def stop(self) -> Path | None:
        """End recording."""
        import torch_xla.debug.profiler as xp

        self._session.end(xp.stop_trace)
        return newest_profile(self._scratch)

    def busy(self) -> bool:
        """Whether the program records itself, its server does, or was asked to just now."""
        return self._server.begins() or self._session.busy()

    def give_way_by(self, end: Callable[[], None]) -> None:
        """Call `end` before the program opens a session of its own, or asks its server for one."""
        self._session.give_way = end
        extension = xlac()
        if extension is not None:
            self._server.install(extension.profiler, end)

    def forget(self) -> None:
        """In a forked process: the profiler is free, as it would be without us, and the folders are the parent's."""
        self._session.forget()
        self._server.remove()
        self._scratch = None
        self._scratches.clear()

    def clean_up(self) -> None:
        """Remove the scratch folders, and what was put around the request to a server."""
        self._server.remove()
        for scratch in self._scratches:
            remove_scratch(scratch)


class OverServer:
    """The profiler server of torch_xla, asked from a thread of this process: for torch_xla before 2.7.

    The server records for a time that must be said beforehand, so `seconds` bounds the capture.
    """

    repeats = False

    def __init__(self, seconds: float = 5.0) -> None:
        self.seconds = seconds
        self._scratch: Path | None = None
        self._request: object | None = None

    def start(self) -> None:
        """Start a server on a free port and ask it to record; returns once it was asked, so that no step is missed."""
        import threading

        from tpuprof.capture.ports import free_port
        from tpuprof.capture.remote import Target, profile_host
        from tpuprof.instrument.server import start_server

        port = free_port()
        start_server(port)
        self._scratch = new_scratch()
        target = Target(self._scratch, "session", "host")
        asked = threading.Event()

        def ask() -> None:
            try:
                profile_host(f"localhost:{port}", self.seconds, target, asked.set)
            finally:
                asked.set()

        thread = threading.Thread(target=ask, name="tpuprof-request", daemon=True)
        thread.start()
        asked.wait()
        self._request = thread

    def stop(self) -> Path | None:
        """Wait for the answer."""
        import threading

        if isinstance(self._request, threading.Thread):
            self._request.join(self.seconds + 60)
        return newest_profile(self._scratch)

    def busy(self) -> bool:
        """Whether a profiler records this process: the program's own."""
        return bool(profiler_on(xlac()))

    def give_way_by(self, end: Callable[[], None]) -> None:
        """Nothing can be seen beforehand."""

    def forget(self) -> None:
        """Nothing is to be put back."""

    def clean_up(self) -> None:
        """Remove the scratch folder."""
        if self._scratch is not None:
            remove_scratch(self._scratch)


def choose_backend() -> Backend:
    """The back end of TorchTPU or JAX where one of them trains, else the best of the installed torch_xla.

    Raises `TpuprofError` (`missing-extra`) without any.
    """
    from tpuprof.capture.frameworks import backend_in_use

    other = backend_in_use()
    if other is not None:
        return other
    try:
        import torch_xla.debug.profiler as xp
    except ImportError as error:
        raise TpuprofError(
            Code.MISSING_EXTRA,
            "Capturing in this process needs torch_xla, TorchTPU or JAX, and the program imported none of them.",
            'Install it with: pip install "tpuprof[xla]".',
        ) from error
    return InProcess() if hasattr(xp, "start_trace") else OverServer()


def newest_profile(folder: Path | None) -> Path | None:
    """The newest `.xplane.pb` below a folder, None where there is none."""
    found = sorted(folder.rglob(profile_name("*")), key=lambda path: path.stat().st_mtime) if folder else []
    return found[-1] if found else None
