"""The shape that a framework takes to be recorded: torch_xla's extension module is the pattern.

A framework without graph cuts, counters or IR debugging answers so that whoever asks goes on without them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

COMPILES, HITS = "UncachedCompile", "CachedCompile"
CACHE_HITS, CACHE_LOADS, CACHE_MISSES = "PersistentCacheHit", "PersistentCacheLoad", "PersistentCacheMiss"


class Profiler:
    """Events on the host timeline. `TraceMe(name, **stats)` is a context manager with `set_metadata`.

    `in_python` tells that making one runs Python code.
    """

    def __init__(self, event: Any, start_server: Callable[[int], object], *, in_python: bool = False) -> None:
        self.TraceMe = event
        self.in_python = in_python
        self.start_server = start_server

    def scope_pusher(self, _name: str) -> AbstractContextManager[None]:
        """A scope in the ops traced meanwhile: there is none."""
        return nullcontext()


class Framework:
    """Answers what the recorder asks torch_xla's extension. Subclasses know their framework's counters."""

    name = ""
    # Device types of tensors that lie on the accelerator.
    devices: tuple[str, ...] = ()
    profiler: Any = None
    # Whether a log of the framework names lines of libraries, so that it is worth to note who calls them.
    logs_lines = False

    # Whether it tells of a compile in the thread that compiled, as that ends.
    tells_compiles = False

    def __init__(self) -> None:
        self._compiled = 0
        # Called after each compile with how long it took (s), in the thread that compiled, where `tells_compiles`.
        self.when_compiled: list[Callable[[float], None]] = []
        # The thread that compiled last (its `get_ident`), where the framework tells: what it compiles it runs.
        self.compiled_in: int | None = None

    def initialized(self) -> bool:
        """Whether this process has a runtime. The question starts none."""
        raise NotImplementedError

    def place(self) -> tuple[int, int]:
        """(rank of this process, number of processes)."""
        return 0, 1

    def device(self) -> dict[str, Any] | None:
        """Type and number of the devices, None where unknown."""
        return None

    def compiles(self) -> int:
        """Programs compiled since the process began."""
        return 0

    def compiling(self) -> bool:
        """Whether a program is being made, as far as the framework tells."""
        return False

    def settled(self) -> bool:
        """Whether a step without a compile shows that none is under way: the counter of compiles may lag behind."""
        return True

    def lookups(self) -> int:
        """Programs or ops asked for since the process began: grows while the host feeds the device."""
        return 0

    def cache_path(self) -> str:
        """Folder of the persistent compilation cache, empty where none is on or none is known."""
        return ""

    def defers_ops(self) -> bool:
        """Whether eager ops wait until a value is needed, so that many become one program."""
        return False

    def drain_compiles(self) -> list[tuple[int, float, list[str]]]:
        """(programs, seconds, Python frames) of compiles since the last call."""
        now = self.compiles()
        found, self._compiled = now - self._compiled, now
        return [(found, 0.0, [])] if found > 0 else []

    def install(self) -> None:
        """Watch what has to be watched all the time."""

    def remove(self) -> None:
        """Watch it no more."""

    def _xla_counter_value(self, name: str) -> int:
        if name == COMPILES:
            return self.compiles()
        return self.lookups() if name in ("CreateXlaTensor", HITS) else 0

    def _xla_counter_names(self) -> list[str]:
        return []

    def _xla_metric_data(self, _name: str) -> None:
        return None

    def _xla_metrics_report(self) -> str:
        return ""

    def _xla_step_marker(self, *_args: Any, **_kwargs: Any) -> None:
        """A graph cut, which no one calls here."""


def loaded(module: str) -> Any | None:
    """A module that the program has imported, else None."""
    return sys.modules.get(module)
