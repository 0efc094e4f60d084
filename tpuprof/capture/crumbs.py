"""Short notes that hooked processes leave in the capture's private folder, so that its parent knows how far each came.

Each process appends lines of `key<TAB>value` to a file of its own. A process that dies by a signal has written
what it knew before. This module is imported whenever a hooked Python starts: it imports `os` and nothing else.
"""

from __future__ import annotations

import os

_PREFIX = "process-"
# What a process writes down, in the order in which it comes to it.
STARTED = "started"  # the hook ran; the command line
IMPORTED = "imported"  # the name of a framework that was imported
FAILED = "failed"  # why nothing can be captured in this process
BROKE_OFF = "broke off"  # why a recording failed
GRAPHS = "graphs"  # graphs run so far
STEPS = "steps"  # training steps seen so far
COMPILED_CALLS = "compiled_calls"  # graphs that functions of torch.compile ran, which end no step
BUSY = "busy"  # the program's own profiler session kept us from recording, after so many steps
RECORDING = "recording"  # 1 when a recording begins, 0 when it ends
CAPTURED = "captured"  # steps in the profile it wrote
WRITTEN = "written"  # the label of the profile that it wrote
ENDED = "ended"  # the interpreter ended in the usual way


def leave(folder: str, key: str, value: object = "") -> None:
    """Append one line. Raises nothing: a folder that is gone or full is not the program's problem."""
    try:
        text = str(value).encode("unicode_escape", "replace").decode("ascii")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        handle = os.open(os.path.join(folder, f"{_PREFIX}{os.getpid()}"), flags, 0o600)
        try:
            os.write(handle, f"{key}\t{text}\n".encode("ascii"))
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        from tpuprof.instrument.state import pass_on

        pass_on(error)


class Process:
    """What one process left: its id, and all values by key, oldest first."""

    def __init__(self, pid: int, lines: list[tuple[str, str]]) -> None:
        self.pid = pid
        self._lines = lines

    def all(self, key: str) -> list[str]:
        """All values left under a key, escaped as they were written."""
        return [value for name, value in self._lines if name == key]

    def texts(self, key: str) -> list[str]:
        """All values left under a key, as they were."""
        return [value.encode("ascii", "replace").decode("unicode_escape") for value in self.all(key)]

    def last(self, key: str) -> str | None:
        """The newest value, None where there is none."""
        values = self.all(key)
        return values[-1] if values else None

    def count(self, key: str) -> int:
        """The newest value as a number, 0 where there is none."""
        value = self.last(key) or "0"
        return int(value) if value.isdigit() else 0


def read(folder: str) -> list[Process]:
    """What all hooked processes left, in the order of their ids."""
    found = []
    for name in os.listdir(folder):
        pid = name.removeprefix(_PREFIX)
        if not name.startswith(_PREFIX) or not pid.isdigit():
            continue
        with open(os.path.join(folder, name), encoding="ascii", errors="replace") as file:
            pairs = [line.rstrip("\n").partition("\t") for line in file]
        found.append(Process(int(pid), [(key, value) for key, _, value in pairs]))
    return sorted(found, key=lambda process: process.pid)
