"""JAX's profiler session, of which a process has one: the program's own comes before ours.

While ours is open, the lock that guards it is ours too. Whatever the program asks of JAX's profiler takes that lock
first, also where it imported `start_trace` by name: ours then ends before, and the program finds the profiler free.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tpuprof.capture.without_tensorflow import called
from tpuprof.run_folder import PROFILES, profile_name

_MODULE = "jax._src.profiler"


def _state() -> Any | None:
    """What JAX keeps of its session; None where this version keeps it elsewhere."""
    state = getattr(sys.modules.get(_MODULE), "_profile_state", None)
    return state if hasattr(state, "lock") and hasattr(state, "profile_session") else None


def busy() -> bool:
    """Whether a session is open, or about to be opened or closed."""
    state = _state()
    return state is not None and (state.profile_session is not None or state.lock.locked())


def stop_into(folder: str) -> bool:
    """End the open session and write its profile alone; False where this version of JAX keeps it elsewhere.

    `jax.profiler.stop_trace` writes a Chrome trace of the same as well. It keeps Python's lock meanwhile, so training
    waits for it: benchmarks/jax_stop.py.
    """
    state = _state()
    stop = getattr(getattr(state, "profile_session", None), "stop", None)
    if state is None or stop is None or not hasattr(state, "reset"):
        return False
    with state.lock:
        profile: bytes = called(stop)
        state.reset()
    place = Path(folder, PROFILES, "recorded")
    place.mkdir(parents=True)
    (place / profile_name(socket.gethostname())).write_bytes(profile)
    return True


class OurSession:
    """Stands for JAX's lock from `begin` to `end`. `give_way` ends our recording and raises nothing."""

    def __init__(self) -> None:
        self.give_way: Callable[[], None] = lambda: None
        self._state: Any = None
        self._lock: Any = None
        # The thread that opens or closes our own session just now.
        self._thread: int | None = None
        self._parents: Any = None

    def begin(self, start: Callable[[], None]) -> None:
        """Open our session by `start`. What that raises, passes through."""
        self._state = _state()
        if self._state is None:
            start()
            return
        self._thread, self._lock = threading.get_ident(), self._state.lock
        self._state.lock = self
        try:
            start()
        except BaseException:
            self._state.lock = self._lock
            raise
        finally:
            self._thread = None

    def end(self, stop: Callable[[], None]) -> None:
        """Close it by `stop`. Where that fails, the program still finds the profiler free."""
        state, self._state = self._state, None
        if state is None:
            stop()
            return
        self._thread = threading.get_ident()
        try:
            stop()
        finally:
            if state.profile_session is not None:
                state.profile_session = None
            self._thread, state.lock = None, self._lock

    def forget(self) -> None:
        """In a forked process: the session is the parent's, and is neither ended nor freed here."""
        state, self._state = self._state, None
        self.give_way = lambda: None
        if state is not None:
            self._parents, state.profile_session, state.lock = state.profile_session, None, threading.Lock()

    def locked(self) -> bool:
        """Whether JAX's own lock is held."""
        return bool(self._lock.locked())

    def __enter__(self) -> object:
        if threading.get_ident() != self._thread:
            self.give_way()
        return self._lock.__enter__()

    def __exit__(self, *what: object) -> object:
        return self._lock.__exit__(*what)
