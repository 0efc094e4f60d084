"""A run that lies at a URL, for the time of one command on this machine: in memory where there is room.

Only the newest session is read, with tpuprof's notes beside it. Messages and reports name the URL, never the copy.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from tpuprof.errors import Code, TpuprofError
from tpuprof.run_folder import EXPORT_SUFFIXES, NOTES, PROFILE_SUFFIXES, PROFILES
from tpuprof.storage.address import joined, name_of, shown, url_of
from tpuprof.storage.store import REQUESTS, Entry, entries_below, entry_of, fetch

# Where copies go instead of memory or the system's folder for temporary files.
FOLDER_VARIABLE = "TPUPROF_DOWNLOAD_DIR"
_MEMORY = Path("/dev/shm")
# Of the memory's free room a copy takes at most this part (ratio): the analysis needs about as much again.
_ROOM = 0.25
_BEFORE_SESSIONS = f"/{PROFILES.as_posix()}"
_NOTES = f"{NOTES}/"
_OTHER_NAMES = (
    *EXPORT_SUFFIXES,
    ".json",
    ".json.gz",
    ".pb",
    ".gz",
    ".zip",
    ".xplane",
    ".trace",
)
_copies: dict[str, tuple[Path, Path]] = {}
_shown_for: dict[str, str] = {}
_failures: dict[str, list[str]] = {}


def local(path: str | os.PathLike[str]) -> Path:
    """The path itself; of a URL, a copy of the run there, which lasts as long as this process.

    Raises `TpuprofError`: `input-not-found`, `input-no-trace`, `missing-extra`, or one of the `storage-` codes.
    """
    url = url_of(path)
    if url is None:
        return Path(path)
    if url not in _copies:
        _copies[url] = _copied(url)
    return _copies[url][1]


def with_urls(text: str) -> str:
    """A text in which copies are named by the URLs they are of."""
    for place, url in _shown_for.items():
        text = text.replace(place, url)
    return text


def copy_of(name: str) -> Path:
    """The copy that a report names by its URL, or the path itself; the other way round than `with_urls`."""
    for place, url in _shown_for.items():
        if name == url or name.startswith(f"{url}/"):
            return Path(place + name[len(url) :])
    return Path(name)


def failures(path: str | os.PathLike[str]) -> list[str]:
    """What could not be read of a URL's run, where the rest of it could."""
    return _failures.get(url_of(path) or "", [])


def forget(path: str | os.PathLike[str]) -> None:
    """Remove the copy of a URL."""
    url = url_of(path)
    if url in _copies:
        folder = _copies.pop(url)[0]
        for place in [each for each in _shown_for if each.startswith(str(folder))]:
            del _shown_for[place]
        _remove(folder)


def listing(url: str) -> tuple[list[Entry], str]:
    """What of a URL is to be read, and the folder that paths are below: the newest session's files and notes."""
    base, inside = _base(url)
    one = entry_of(url)
    if one is not None:
        below = inside or name_of(url)
        base = base if inside else _parent(url)
        return [Entry(one.url, below, one.size, one.modified), *(_notes(base) if inside else [])], base
    entries = [
        Entry(each.url, f"{inside}/{each.below}".lstrip("/"), each.size, each.modified)
        for each in entries_below(url)
    ]
    if inside:
        entries += _notes(base)
    return _newest(entries), base


def _newest(entries: list[Entry]) -> list[Entry]:
    """Files of the newest session, and tpuprof's notes; whatever could be a profile where no file is named as one."""
    notes = [each for each in entries if each.below.startswith(_NOTES)]
    sessions: dict[str, list[Entry]] = {}
    for each in entries:
        if each.below.endswith(PROFILE_SUFFIXES):
            sessions.setdefault(each.below.rpartition("/")[0], []).append(each)
    if not sessions:
        others = [each for each in entries if each.below.endswith(_OTHER_NAMES) and each not in notes]
        return notes + others
    newest = max(sessions, key=lambda folder: (max(each.modified for each in sessions[folder]), folder))
    return notes + sessions[newest]


def _copied(url: str) -> tuple[Path, Path]:
    entries, base = listing(url)
    folder = _folder(sum(max(each.size, 0) for each in entries))
    root = folder / name_of(base)
    root.mkdir()
    # The longest first: a run folder of the same name may lie inside another's.
    _shown_for[str(root)] = shown(base).rstrip("/")
    with ThreadPoolExecutor(REQUESTS) as pool:
        found = list(pool.map(lambda each: _fetched(each, root), entries))
    errors = [each for each in found if each is not None]
    # Notes alone are no run: where no profile could be read, the reason is the answer.
    profiles = [
        error for each, error in zip(entries, found, strict=True) if not each.below.startswith(_NOTES)
    ]
    if errors and all(profiles):
        raise next((each for each in profiles if each is not None), errors[0])
    _failures[url] = [f"this file is left out. {each}" for each in errors]
    inside = _inside(url, base)
    return folder, root / inside if inside else root


def _fetched(entry: Entry, root: Path) -> TpuprofError | None:
    """Why an object could not be read: an object may be listed and gone, and the others are read all the same."""
    try:
        fetched(entry, root / entry.below)
    except TpuprofError as error:
        (root / entry.below).unlink(missing_ok=True)
        return error
    return None


def fetched(entry: Entry, target: Path) -> Path:
    """The object as a file that keeps its time, by which the newest session is known."""
    fetch(entry, target)
    if entry.modified:
        os.utime(target, (entry.modified, entry.modified))
    return target


def _inside(url: str, base: str) -> str:
    return urlsplit(url).path[len(urlsplit(base).path) :].strip("/")


def _base(url: str) -> tuple[str, str]:
    """The run folder that a URL of a session or profile belongs to, and what of the URL is below it."""
    path = urlsplit(url).path
    before, found, _ = path.partition(_BEFORE_SESSIONS)
    if not found or not before.strip("/"):
        return url.rstrip("/"), ""
    base = url.replace(path, before, 1)
    return base, path[len(before) :].strip("/")


def _parent(url: str) -> str:
    path = urlsplit(url).path
    return url.replace(path, path.rpartition("/")[0], 1) if path.strip("/") else url


def _notes(base: str) -> list[Entry]:
    try:
        found = entries_below(joined(base, _NOTES))
    except TpuprofError as error:
        if error.code is Code.NOT_FOUND:
            return []
        raise
    return [Entry(each.url, _NOTES + each.below, each.size, each.modified) for each in found]


def _folder(size: int) -> Path:
    """A new folder, private to this user, that is removed when the process ends."""
    given = os.environ.get(FOLDER_VARIABLE)
    place = Path(given) if given else None
    if place is None and _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK):
        free = shutil.disk_usage(_MEMORY).free
        place = _MEMORY if size <= free * _ROOM else None
    folder = Path(tempfile.mkdtemp(prefix="tpuprof-", dir=place))
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, owner: int | None = None) -> None:
    # A process that was forked must not remove what its parent still reads.
    if owner is None or owner == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)
