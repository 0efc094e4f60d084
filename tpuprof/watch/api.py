"""`tpuprof.watch` and `tpuprof.phase`: watching from within a program."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any

from tpuprof.ledger.clock import Clock
from tpuprof.watch.options import WatchOptions
from tpuprof.watch.session import watch_process
from tpuprof.watch.watcher import RUNNING, Watcher

_clock = Clock()


class watch:  # noqa: N801  # used like a function
    """Watch this process: every step goes into the ledger in `folder`, anomalies are captured as they happen.

        tpuprof.watch("runs/job")                # until the process ends
        with tpuprof.watch("runs/job"): ...      # or as long as the block

    Steps come from `tpuprof.step`, else from optimizer calls and graph cuts. Options are those of `tpuprof watch`,
    with underscores. Nothing is raised once it runs; an unknown option raises `TypeError` here.
    """

    def __init__(self, folder: str | os.PathLike[str], **options: Any) -> None:
        self._watcher: Watcher = watch_process(WatchOptions(str(Path(folder).absolute()), **options))

    def stop(self) -> None:
        """Watch no more, and complete the ledger."""
        self._watcher.stop("stopped")

    def __enter__(self) -> watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class phase:  # noqa: N801  # used like a function
    """Mark a phase that is not training, such as an evaluation: goodput takes it out of the step it lies in.

        with tpuprof.phase("evaluation"): ...

    `save` and `restore` count as checkpoints. Without `tpuprof.watch` it does nothing. Raises nothing.
    """

    def __init__(self, name: str) -> None:
        self._name = str(name)
        self._began = 0

    def __enter__(self) -> phase:
        self._began = _clock.now_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watcher in tuple(RUNNING):
            watcher.collector.span(self._name, self._began, _clock.now_ns())
