"""How long a thread was ready to run while others had the CPUs."""

from __future__ import annotations

import ctypes
import os
import threading

from tpuprof.instrument.state import pass_on


class RunQueue:
    """How long a thread waited for a CPU that others had, by the scheduler's own count; 0 where there is none.

    The file is read by a call that keeps the GIL: Python's own would give it away.
    """

    def __init__(self, thread: int) -> None:
        # The open file, -1 where there is none.
        self.file = -1
        self._buffer = ctypes.create_string_buffer(96)
        native = next((each.native_id for each in threading.enumerate() if each.ident == thread), None)
        try:
            self._read = ctypes.PyDLL(None).pread
            self.file = os.open(f"/proc/self/task/{native}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except (OSError, AttributeError) as error:
            self.file = -1
            pass_on(error)

    def waited_ns(self) -> int:
        """Time waited since the thread began (ns)."""
        if self.file < 0:
            return 0
        length = self._read(self.file, self._buffer, 95, 0)
        fields = self._buffer.raw[: max(length, 0)].split()
        return int(fields[1]) if len(fields) > 1 else 0

    def close(self) -> None:
        """Close the file."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1
