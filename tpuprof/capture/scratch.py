"""Folders that profilers write into before a profile is put into the run folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tpuprof.instrument.state import pass_on

# The private folder of the capture that this process belongs to; empty where there is none. `tpuprof capture` removes
# it, so that a program that is killed leaves nothing behind.
_places: list[str] = []


def put_into(folder: str) -> None:
    """Make new folders in this one, as long as it is there and may be written."""
    _places[:] = [folder]


def new_scratch() -> Path:
    """A new folder."""
    there = next((place for place in _places if os.access(place, os.W_OK | os.X_OK)), None)
    return Path(tempfile.mkdtemp(prefix="tpuprof-", dir=there))


def remove_scratch(folder: Path) -> None:
    """Remove a folder of ours. What cannot be removed stays."""

    def failed(_function: object, _path: str, what: tuple[object, BaseException, object]) -> None:
        pass_on(what[1])

    shutil.rmtree(folder, onerror=failed)
