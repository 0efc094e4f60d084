"""Begins to read a run's file while the modules that analyze it are still being imported."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tpuprof.decode.load import load
from tpuprof.parallel import begin

if TYPE_CHECKING:
    from tpuprof.decode.columns import Trace
    from tpuprof.decode.find import Found


def reading_ahead(found: Found) -> Callable[[Path], Trace]:
    """Start to decode the first file of a run on a thread; the result does what `load` does.

    The native reader leaves Python to others meanwhile. What cannot be read is reported when it is needed.
    """
    begun = {file: begin(partial(load, file)) for file in list(found.files.values())[:1]}

    def read(file: Path) -> Trace:
        result = begun.pop(file, None)
        return result() if result else load(file)

    return read
