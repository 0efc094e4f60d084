"""A profile mapped into memory, which another process may cut short or rewrite meanwhile.

The compiled watch keeps a read beyond the file's new end from ending the process. Without it, the file is read as a
whole: slower, and safe.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

from tpuprof.errors import Code, TpuprofError

_mapped: Any
try:
    from tpuprof.decode import _mapped
except ImportError:  # not built, or for another Python or machine
    _mapped = None


class ProfileFile:
    """The bytes of a file (`data`), and whether the file is still what it was when it was opened."""

    def __init__(self, path: Path) -> None:
        """Raises `OSError`."""
        self._path = path
        self._watch: Any = None
        self._mapping: mmap.mmap | None = None
        with path.open("rb") as file:
            self._state = _state(os.fstat(file.fileno()))
            self.data: bytes | memoryview = self._map(file.fileno()) if _mapped is not None else file.read()

    def _map(self, descriptor: int) -> memoryview:
        self._mapping = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        data = memoryview(self._mapping)
        watch = _mapped.Watch(data)
        if watch.watching:
            self._watch = watch
            return data
        return memoryview(bytes(data))

    def drop_pages(self) -> None:
        """Give the memory of pages that were read back; what is read again comes from the file."""
        if self._mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._mapping.madvise(mmap.MADV_DONTNEED)

    def check(self) -> None:
        """Raise `TpuprofError` (`input-changed`) where the file is no longer what it was."""
        try:
            now = _state(self._path.stat())
        except OSError:
            now = self._state  # deleted: what was opened stays
        # Another file under the same name leaves the one that was opened as it is.
        same = now == self._state or now[0] != self._state[0]
        if (self._watch is not None and self._watch.cut) or not same:
            raise TpuprofError(
                Code.CHANGED,
                f"{self._path}: the file changed while it was read.",
                "Wait until the capture or the copy is complete, then analyze it again.",
            )


def _state(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
