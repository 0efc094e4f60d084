"""What Linux says of one thread: how long it was ready to run while others had the CPUs, and whether it sleeps."""

from __future__ import annotations

import os
import threading

from tpuprof.instrument.state import pass_on


class RunQueue:
    """Open files of a thread's entry in `/proc`: `file` counts its wait for a CPU, `state` tells whether it sleeps."""

    def __init__(self, thread: int) -> None:
        native = next((each.native_id for each in threading.enumerate() if each.ident == thread), None)
        # Their numbers, -1 where there is none.
        self.file, self.state = _opened(native, "schedstat"), _opened(native, "stat")

    def close(self) -> None:
        """Close the files."""
        for file in (self.file, self.state):
            if file >= 0:
                os.close(file)
        self.file = self.state = -1


def _opened(thread: int | None, name: str) -> int:
    try:
        return os.open(f"/proc/self/task/{thread}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        pass_on(error)
        return -1
