"""A run folder that is captured here and kept in a store: written whole to this machine first, then copied."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tpuprof.errors import Code, TpuprofError
from tpuprof.run_folder import PROFILES
from tpuprof.storage.address import joined, name_of, shown
from tpuprof.storage.store import REQUESTS, entries_below, put


def refuse_overwrite(url: str, name: str | None, *, force: bool) -> None:
    """Raise `TpuprofError` (`output-exists`) where the store has a capture of that name, unless `force`."""
    if name is None or force:
        return
    folder = joined(url, f"{PROFILES.as_posix()}/{name}")
    try:
        found = entries_below(folder)
    except TpuprofError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        return
    if found:
        raise TpuprofError(
            Code.OUTPUT_EXISTS,
            f"{shown(folder)}: there is a capture of that name.",
            "Choose another --name, or pass --force.",
        )


@contextmanager
def kept_at(url: str) -> Iterator[Path]:
    """A folder on this machine whose files are copied to the URL at the end, also of a body that fails.

    It is removed once all files are there. Raises `TpuprofError` (a `storage-` code), naming the folder, where not.
    """
    place = Path(tempfile.mkdtemp(prefix="tpuprof-capture-"))
    folder = place / name_of(url)
    folder.mkdir()
    try:
        yield folder
    finally:
        upload(folder, url)
        shutil.rmtree(place, ignore_errors=True)


def upload(folder: Path, url: str) -> int:
    """Copy all files below a folder; returns how many. Raises `TpuprofError`."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    try:
        with ThreadPoolExecutor(REQUESTS) as pool:
            list(pool.map(lambda path: put(path, joined(url, path.relative_to(folder).as_posix())), files))
    except TpuprofError as error:
        raise TpuprofError(
            error.code, f"{error.message} The capture is kept in {folder}.", error.hint
        ) from None
    return len(files)
