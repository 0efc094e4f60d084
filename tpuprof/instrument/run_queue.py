"""How long a thread was ready to run while others had the CPUs."""

from __future__ import annotations

import os
import threading

from tpuprof.instrument.state import pass_on


class RunQueue:
    """The open file in which the scheduler counts how long a thread waited for a CPU."""

    def __init__(self, thread: int) -> None:
        # Its number, -1 where there is none.
        self.file = -1
        native = next((each.native_id for each in threading.enumerate() if each.ident == thread), None)
        try:
            self.file = os.open(f"/proc/self/task/{native}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            pass_on(error)

    def close(self) -> None:
        """Close the file."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1
