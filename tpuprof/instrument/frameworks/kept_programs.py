"""Keeps the programs of JAX's CPU backend in memory while a recording runs.

XLA's CPU backend names the end of an op from the memory of the compiled program while it is being recorded. Up to
jaxlib 0.8.0 that memory may be gone by then: a program whose last owner is its own last execution is freed just before,
and the process aborts (`std::bad_alloc` or `std::length_error` in a thread of XLA). That is so with `jax.profiler`
alone, too: a jitted function that is made again and replaced is enough. So whoever records holds all programs until the
recording has ended.
"""

from __future__ import annotations

from typing import Any

from tpuprof.instrument.frameworks.base import loaded
from tpuprof.instrument.state import note_failure

# The first jaxlib that copies the name: 0.6.2, 0.7.1, 0.7.2 and 0.8.0 abort when glibc overwrites freed memory
# (MALLOC_PERTURB_), 0.8.1, 0.8.2 and 0.9.0 do not.
FIXED_IN = (0, 8, 1)
_WHAT = "keeping compiled programs while recording"


class KeptPrograms:
    """Holds the CPU's programs from `begin` to `end`; `look` takes in those compiled since. Nothing of it raises."""

    def __init__(self) -> None:
        self._kept: dict[int, Any] = {}
        self._recording = False

    def begin(self) -> None:
        """Hold what there is."""
        self._recording = True
        self.look()

    def look(self) -> None:
        """Hold what was compiled since. A compile is reported while its caller still has the program."""
        if not self._recording:
            return
        try:
            for program in _programs():
                self._kept[id(program)] = program
        except Exception as error:
            note_failure(_WHAT, error)

    def end(self) -> None:
        """Let go. The recording has ended: nothing names an op any more."""
        self._recording = False
        self._kept.clear()

    def forget(self) -> None:
        """In a forked process: hold on to the parent's programs, since freeing one there may wait for its threads."""
        self._recording = False


def _programs() -> list[Any]:
    """The CPU backend's live programs; none where jaxlib needs no help. Starts no backend."""
    version = getattr(loaded("jaxlib.version"), "__version_info__", FIXED_IN)
    if tuple(version) >= FIXED_IN:
        return []
    client = getattr(loaded("jax._src.xla_bridge"), "_backends", {}).get("cpu")
    return [] if client is None else list(client.live_executables())
