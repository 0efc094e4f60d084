"""Begins to read a run's file while the modules that analyse it are still being imported."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tpuprof.decode.columns import Trace
from tpuprof.decode.find import find
from tpuprof.decode.load import load
from tpuprof.errors import TpuprofError


def reading_ahead(path: Path) -> Callable[[Path], Trace]:
    """Start to decode the first file of the run at `path` on a thread; the result does what `load` does.

    The native reader leaves Python to others meanwhile. What cannot be found or read is told by the analysis.
    """
    pending: dict[Path, Future[Trace]] = {}
    try:
        files = find(path).files
    except (TpuprofError, OSError):
        return load
    pool = ThreadPoolExecutor(1)
    for file in list(files.values())[:1]:
        pending[file] = pool.submit(load, file)
    pool.shutdown(wait=False)

    def read(file: Path) -> Trace:
        begun = pending.pop(file, None)
        return begun.result() if begun else load(file)

    return read
