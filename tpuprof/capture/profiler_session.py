"""The profiler session of JAX, torch_xla or TorchTPU, of which a process has one: the program's own comes before ours.

All three keep it in a module's `_profile_state`, behind a lock. While ours is open, that lock is ours too. Whatever the
program asks of the profiler takes it first, also where it imported `start_trace` by name: ours then ends before, and
the program finds the profiler free.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from tpuprof.instrument.profiler_on import profiler_on
from tpuprof.instrument.state import pass_on

# After a session of ours that did not begin, none is tried for so long (s): the other one is being written, and each
# attempt costs the program a look at its objects. A judgement.
AGAIN_AFTER_SECONDS = 1.0


class ProfilerTakenError(Exception):
    """Our session did not begin: another one of this process has not ended yet, or its profile is being written."""


def state_of(module: str) -> Any | None:
    """What a framework's module keeps of its session; None where this version keeps it elsewhere."""
    state = getattr(sys.modules.get(module), "_profile_state", None)
    return state if hasattr(state, "lock") and hasattr(state, "profile_session") else None


class OurSession:
    """Stands for the lock of `module` from `begin` to `end`. `give_way` ends our recording and raises nothing.

    `extension` gives what is asked whether events are recorded: torch_xla's, or the framework that stands for it.
    """

    def __init__(self, module: str, extension: Callable[[], Any | None]) -> None:
        self.give_way: Callable[[], None] = lambda: None
        self._module = module
        self._extension = extension
        self._state: Any = None
        self._lock: Any = None
        # The thread that opens or closes our own session just now.
        self._thread: int | None = None
        self._parents: Any = None
        self._taken = -AGAIN_AFTER_SECONDS

    def busy(self) -> bool:
        """Whether somebody else records, is about to begin or end it, or kept ours from beginning just now."""
        if time.monotonic() - self._taken < AGAIN_AFTER_SECONDS:
            return True
        state = state_of(self._module)
        if state is not None and (state.profile_session is not None or state.lock.locked()):
            return True
        return bool(profiler_on(self._extension()))

    def begin(self, start: Callable[[], None], stop: Callable[[], None]) -> None:
        """Open our session by `start`. What that raises, passes through.

        Frameworks keep to themselves that one did not begin, but then no events are recorded: ends it by `stop` and
        raises `ProfilerTakenError`.
        """
        self._begin(start)
        if profiler_on(self._extension()) is False:
            try:
                self.end(stop)
            except Exception as error:  # it says that another one was there first
                pass_on(error)
            self._taken = time.monotonic()
            raise ProfilerTakenError

    def _begin(self, start: Callable[[], None]) -> None:
        self._state = state_of(self._module)
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
        """Whether the framework's own lock is held."""
        return bool(self._lock.locked())

    def __enter__(self) -> object:
        if threading.get_ident() != self._thread:
            self.give_way()
        return self._lock.__enter__()

    def __exit__(self, *what: object) -> object:
        return self._lock.__exit__(*what)
