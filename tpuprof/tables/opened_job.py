"""`tpuprof.open_job`: what `tpuprof watch` recorded of a job, as an object of the public Python API."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuprof.goodput.history import RunSummary
    from tpuprof.goodput.jobs import JobGoodput
    from tpuprof.prove.track_record import Tried
    from tpuprof.watch.follow import JobState


class OpenJob:
    """A folder, or a URL, that `tpuprof watch` writes to. Made by `tpuprof.open_job`.

    Each call reads what is there now. All raise `TpuprofError`: `input-not-found`, `input-no-ledger` where no job is
    there, and what reading a URL raises.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._path = Path(folder)

    def __repr__(self) -> str:
        return f"tpuprof.open_job({str(self._path)!r})"

    def goodput(self) -> list[JobGoodput]:
        """Where all wall time of each job in the folder went, oldest job first; times in ns."""
        from tpuprof.goodput.jobs import goodput_of

        with self._folder() as folder:
            return goodput_of(folder)

    def history(self) -> dict[str, list[RunSummary]]:
        """The runs of each job, oldest first, with step time and commit."""
        from tpuprof.goodput.history import history_of

        with self._folder() as folder:
            return history_of(folder)

    def proofs(self) -> list[Tried]:
        """Fixes that `tpuprof prove` tried in the runs below the folder: what was predicted, and what was measured."""
        from tpuprof.prove.track_record import tried_below

        with self._folder() as folder:
            return tried_below(folder)

    def now(self) -> list[JobState]:
        """Each job as it goes: its step, hosts and how they keep up, anomalies with their verdicts."""
        from tpuprof.watch.follow import read_jobs

        with self._folder() as folder:
            return read_jobs(folder)

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        from tpuprof.watch.remote import job_folder

        with job_folder(self._path) as (folder, _):
            yield folder


def open_job(folder: str | os.PathLike[str]) -> OpenJob:
    """Open the folder, or the URL, of a watched job. Nothing is read yet."""
    return OpenJob(folder)
