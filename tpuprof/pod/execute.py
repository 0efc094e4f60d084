"""Runs one task per host: on the cores of this machine, or on a Dask cluster. A worker that dies loses nothing."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from typing import Any

from tpuprof import parallel
from tpuprof.analysis.processes import pool_of
from tpuprof.errors import Code, TpuprofError
from tpuprof.pod.hosts import Job, summarise_host
from tpuprof.records import record
from tpuprof.storage.address import shown

# How long a scheduler may take to answer (s): one that runs answers at once.
CONNECT_WITHIN = 10
LOCAL = "local"
# How often a host is tried alone after a process died that may have read it (times): a file that kills its reader, for
# memory say, must not kill one after the other for ever.
TRIES = 3
_Work = Callable[[Job], bytes]


@record(frozen=True)
class Done:
    """One host: its packed summary, or why there is none."""

    name: str
    summary: bytes | None
    why: str = ""


def summarise_all(jobs: list[Job], dask: str = "", work: _Work = summarise_host) -> Iterator[Done]:
    """Summaries of all hosts as they come, in any order; a host that cannot be read is named.

    `dask` is empty for processes of this machine, `local` for a cluster made here, else the scheduler's address.
    Raises `TpuprofError` (`missing-extra`, `capture-cannot-connect`).
    """
    if dask:
        return _on_dask(jobs, dask, work)
    count = min(parallel.threads(), len(jobs))
    return _in_processes(jobs, count, work) if count > 1 else (_tried(job, work) for job in jobs)


def _tried(job: Job, work: _Work) -> Done:
    """The host's summary; a defect that one file shows must not take the other hosts with it."""
    try:
        return Done(job.name, work(job))
    except TpuprofError as error:
        return Done(job.name, None, str(error))
    except Exception as error:
        return Done(job.name, None, _defect(error))


def _defect(error: BaseException) -> str:
    return str(TpuprofError(Code.INTERNAL, f"{type(error).__name__}: {error}.", "Please report this."))


def _in_processes(jobs: list[Job], count: int, work: _Work) -> Iterator[Done]:
    import tpuprof.analysis.analyze  # noqa: F401  # a process that is forked has what is imported here

    left = list(reversed(jobs))
    while left:
        lost: list[Job] = []
        with pool_of(count) as pool:
            running: dict[Future[Done], Job] = {}
            # Begun, or about to be: a pool may break as a job is given to it.
            taken: list[Job] = []
            try:
                while left or running:
                    # Few at a time: what waits in a pool is lost with it.
                    while left and len(running) < 2 * count:
                        taken.append(left.pop())
                        running[pool.submit(_tried, taken[-1], work)] = taken[-1]
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        done = future.result()
                        taken.remove(running.pop(future))
                        yield done
            except BrokenExecutor:
                lost = taken
        # Nobody says which of them it was: each is tried alone.
        yield from (_alone(job, work) for job in lost)


def _alone(job: Job, work: _Work) -> Done:
    """A host in a process of its own, so that no other is taken for the one that kills its reader."""
    for _ in range(TRIES):
        with pool_of(1) as pool, contextlib.suppress(BrokenExecutor):
            return pool.submit(_tried, job, work).result()
    return Done(job.name, None, _died())


def _died() -> str:
    return str(
        TpuprofError(
            Code.OUT_OF_MEMORY,
            f"the process that read it died {TRIES} times.",
            "Read this host alone on a machine with more memory.",
        )
    )


def _on_dask(jobs: list[Job], address: str, work: _Work) -> Iterator[Done]:
    with _client(address) as client:
        from distributed import as_completed

        run = uuid.uuid4().hex
        names = {f"tpuprof-{run}-{job.name}": job.name for job in jobs}
        # Tasks of a worker that dies go to the others by themselves; only a file that kills each of them fails.
        futures = [
            client.submit(_tried, job, work, key=key, pure=False)
            for job, key in zip(jobs, names, strict=True)
        ]
        for future in as_completed(futures):
            try:
                done = future.result()
            except Exception as error:
                killed = type(error).__name__ == "KilledWorker"
                done = Done(names[future.key], None, _died() if killed else _defect(error))
            # The cluster need not keep what is here.
            future.release()
            yield done


@contextlib.contextmanager
def _client(address: str) -> Iterator[Any]:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise TpuprofError(
            Code.MISSING_EXTRA, "Dask is not installed.", 'Install it with: pip install "tpuprof[pod]".'
        ) from error
    if address == LOCAL:
        with (
            LocalCluster(
                n_workers=parallel.threads(), threads_per_worker=1, processes=True, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = Client(address, timeout=CONNECT_WITHIN)
    except (OSError, ValueError, TimeoutError) as error:
        raise TpuprofError(
            Code.CAPTURE_CONNECT,
            f"{shown(address)}: no Dask scheduler answers.",
            "Check the address; see docs/pods.md.",
        ) from error
    with client:
        yield client
