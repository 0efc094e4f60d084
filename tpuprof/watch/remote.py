"""Watched jobs in a store: a job's folder is kept on this machine and copied every few seconds; readers copy it back.

Processes write to a folder of this machine only, so that a slow store never stops training.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tpuprof.errors import TpuprofError
from tpuprof.run_folder import LEDGERS, STATUS, VERDICT
from tpuprof.storage.address import joined, shown, url_of
from tpuprof.storage.store import REQUESTS, Entry, entries_below, fetch, put
from tpuprof.storage.upload import kept_at

# How often changed files are copied to the store (s): what the loss of a machine costs at most, besides the copying.
SYNC_SECONDS = 10.0
# What readers need: ledgers, the state of each process, and verdicts of captures.
_READ = (f"{LEDGERS}/", f"{STATUS}/")
_VERDICT = f"/{VERDICT}"


@contextmanager
def uploaded_to(url: str) -> Iterator[Path]:
    """A folder on this machine whose files go to the URL while the body runs, and all of them at its end.

    Raises `TpuprofError` (a `storage-` code), naming the folder, where the last copy fails; failures before it do not
    matter, since the next copy is whole.
    """
    halt = threading.Event()
    with kept_at(url) as folder:
        seen: dict[Path, tuple[int, int]] = {}

        def keep_copying() -> None:
            while not halt.wait(SYNC_SECONDS):
                copy_changed(folder, url, seen)

        thread = threading.Thread(target=keep_copying, name="tpuprof-upload", daemon=True)
        thread.start()
        try:
            yield folder
        finally:
            halt.set()
            thread.join()


def copy_changed(folder: Path, url: str, seen: dict[Path, tuple[int, int]]) -> int:
    """Copy files that changed since the last call; how many. A store that does not answer is asked again next time."""
    copied = 0
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        try:
            stat = path.stat()
            if seen.get(path) == (stat.st_size, stat.st_mtime_ns):
                continue
            put(path, joined(url, path.relative_to(folder).as_posix()))
            seen[path] = (stat.st_size, stat.st_mtime_ns)
            copied += 1
        except (TpuprofError, OSError):
            continue
    return copied


class JobMirror:
    """A copy of what readers need of a job in a store; `refresh` fetches what changed."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self._seen: dict[str, tuple[int, float]] = {}

    def refresh(self) -> int:
        """Fetch new and changed files; how many. Raises `TpuprofError`."""
        changed = [each for each in entries_below(self.url) if self._wanted(each)]
        with ThreadPoolExecutor(REQUESTS) as pool:
            list(pool.map(self._fetch, changed))
        return len(changed)

    def _wanted(self, entry: Entry) -> bool:
        read = entry.below.startswith(_READ) or entry.below.endswith(_VERDICT)
        inside = (self.folder / entry.below).resolve().is_relative_to(self.folder.resolve())
        return read and inside and self._seen.get(entry.below) != (entry.size, entry.modified)

    def _fetch(self, entry: Entry) -> None:
        fetch(entry, self.folder / entry.below)
        self._seen[entry.below] = (entry.size, entry.modified)


@contextmanager
def job_folder(path: Path) -> Iterator[tuple[Path, JobMirror | None]]:
    """The folder of a job: itself, or of a URL a copy of it with its mirror, removed at the end.

    A `TpuprofError` of the body names the URL, not the copy.
    """
    url = url_of(path)
    if url is None:
        yield path, None
        return
    with tempfile.TemporaryDirectory(prefix="tpuprof-job-") as name:
        mirror = JobMirror(url, Path(name))
        mirror.refresh()
        try:
            yield mirror.folder, mirror
        except TpuprofError as error:
            raise TpuprofError(error.code, error.message.replace(name, shown(url)), error.hint) from error
