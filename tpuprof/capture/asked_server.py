"""Sees when a program asks its own profiler server for a profile: `xp.trace` and `xp.trace_detached` of torch_xla.

The request reaches the server a moment later, and a server has no profile to give while ours is open. So ours ends
before, and none begins until the server's has begun.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tpuprof.instrument.state import pass_on
from tpuprof.instrument.wrapped_calls import Function, Replaced

# From a request until the server has begun its profile (s): the way through gRPC takes some milliseconds. A judgement
# for busy machines.
BEGINS_WITHIN_SECONDS = 2.0


class AskedServer:
    """Stands around `trace` of an extension's profiler from `install` on."""

    def __init__(self) -> None:
        self._replaced = Replaced()
        self._give_way: Callable[[], None] = lambda: None
        self._asked = -BEGINS_WITHIN_SECONDS

    def install(self, profiler: Any, give_way: Callable[[], None]) -> None:
        """Call `give_way`, which raises nothing, before each request. Doing it twice is harmless."""
        self._give_way = give_way
        if not self._replaced and hasattr(profiler, "trace"):
            self._replaced.replace(profiler, "trace", self._around)

    def remove(self) -> None:
        """Put the framework's own function back."""
        self._replaced.put_back()

    def begins(self) -> bool:
        """Whether the program asked so short a time ago that the server may not have begun yet."""
        return time.monotonic() - self._asked < BEGINS_WITHIN_SECONDS

    def _around(self, original: Function) -> Function:
        def asked(*args: Any, **kwargs: Any) -> Any:
            try:
                self._asked = time.monotonic()
                self._give_way()
            except Exception as error:
                pass_on(error)
            return original(*args, **kwargs)

        return asked
