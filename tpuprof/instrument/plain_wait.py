"""Waits where the native module `_prompt_wait` is missing: Python's lock comes when the thread that has it lets go."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Mapping
from types import CodeType

from tpuprof.instrument.stack_text import places_of_thread
from tpuprof.instrument.thread_frames import Place

# Bytes of a schedstat file that are read: three numbers of at most 20 digits (bytes).
_SCHEDSTAT_BYTES = 96


def put_back() -> None:
    """Nothing was changed."""


def wake_at_once() -> None:
    """Nothing is changed: samples are late in any case."""


class Wait:
    """The waits of one thread that looks at others, as `_prompt_wait` has them, without promptness."""

    works = False

    def __init__(self) -> None:
        self._halt = threading.Lock()
        self._halt.acquire()
        self._buffer = ctypes.create_string_buffer(_SCHEDSTAT_BYTES)
        # A call that keeps the GIL: Python's own would give it away.
        self._read = ctypes.PyDLL(None).pread

    def wait(self, seconds: float, _prompt: bool = True, _stat: int = -1) -> bool:
        """Wait so long; True as soon as `halt` was called."""
        return self._halt.acquire(timeout=seconds)

    def halt(self) -> None:
        """End the wait."""
        self._halt.release()

    def look(
        self,
        thread: int,
        frames: int,
        schedstat: int,
        ops: Callable[[], int] | None,
        _known: Mapping[int, CodeType],
    ) -> tuple[int, int, int, int, int, list[Place], str] | None:
        """As `_prompt_wait.Wait.look`; the frames are never of the moment at which the wait ended."""
        places = places_of_thread(thread)
        if places is None:
            return None
        cpu = time.clock_gettime_ns(time.pthread_getcpuclockid(thread))
        count = 0 if ops is None else ops() or 0
        waited = self._waited(schedstat)
        return time.perf_counter_ns(), count, cpu, waited, time.process_time_ns(), places[:frames], ""

    def _waited(self, file: int) -> int:
        """The second number of a schedstat file: time that the thread waited for a CPU (ns)."""
        if file < 0:
            return 0
        length = self._read(file, self._buffer, _SCHEDSTAT_BYTES - 1, 0)
        fields = self._buffer.raw[: max(length, 0)].split()
        return int(fields[1]) if len(fields) > 1 else 0
