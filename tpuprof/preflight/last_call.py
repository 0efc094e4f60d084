"""The last operator that a script called on the device, kept in a file: a process that native code ends cannot say it.

Written inside the script's process, read by the launcher.
"""

from __future__ import annotations

import mmap
from pathlib import Path

FILE = "last-call"
# Longest name kept (bytes).
_ROOM = 200


class LastCall:
    """The file, mapped into memory: a write costs less than a microsecond and survives the process."""

    def __init__(self, folder: Path) -> None:
        path = folder / FILE
        path.write_bytes(bytes(_ROOM))
        with path.open("r+b") as file:
            self._room = mmap.mmap(file.fileno(), _ROOM)

    def note(self, name: str) -> None:
        """Keep a name in place of the one before."""
        self._room[:] = name.encode()[:_ROOM].ljust(_ROOM, b"\0")


def read_last_call(folder: Path) -> str:
    """The last name noted; empty where there is none."""
    path = folder / FILE
    return path.read_bytes().rstrip(b"\0").decode("utf-8", "replace") if path.is_file() else ""
