"""Lists, reads and writes objects of a store by their URLs, through fsspec."""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tpuprof.errors import Code, TpuprofError
from tpuprof.records import record
from tpuprof.storage.address import AZURE, SCHEMES, joined, scheme_of, shown
from tpuprof.storage.failures import TruncatedError, status_of, tried

# A larger object comes in pieces of this size side by side, and one that is cut off comes again alone (bytes).
PIECE_BYTES = 8 << 20
# Requests at the same time of one process: more of them than this make a bucket throttle, not faster (requests).
REQUESTS = 8
# Folders of a web server below the one that is given (levels).
_DEPTH = 12
_WEB = ("http", "https")
# What stores answer to a write that must not replace anything, where something is, or another such write is under way.
_TAKEN = (409, 412)
_QUIET = logging.NullHandler()


@record(frozen=True)
class Entry:
    """One object: URL, path below the listed folder, size (bytes, -1: unknown), time (s, 0: unknown)."""

    url: str
    below: str
    size: int
    modified: float


def filesystem(url: str) -> tuple[Any, str]:
    """Fsspec's client for a URL, and the path it knows the object by.

    Credentials come from the platform's own chain. Raises `TpuprofError` (`missing-extra`).
    """
    scheme = scheme_of(url)
    if os.environ.get("STORAGE_EMULATOR_HOST"):
        # Emulators have no gRPC, by which gcsfs else asks for the kind of the bucket.
        os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    try:
        from fsspec.core import url_to_fs

        options: dict[str, Any] = {"use_listings_cache": False}
        if scheme == "s3":
            # Its own retries would multiply with ours.
            options["config_kwargs"] = {"retries": {"max_attempts": 1}, "connect_timeout": 10}
        found, path = tried(url, lambda: _made(url_to_fs, url, options))
    except ImportError as error:
        extra = SCHEMES[scheme]
        raise TpuprofError(
            Code.MISSING_EXTRA,
            f"{shown(url)}: the client for {scheme}:// is not installed.",
            f'Install it with: pip install "tpuprof[{extra}]".',
        ) from error
    if scheme in AZURE:
        _tries_once(found)
    return found, path


def _made(make: Any, url: str, options: dict[str, Any]) -> tuple[Any, str]:
    if scheme_of(url) in AZURE:
        # Its list of credentials that are not there would be printed.
        logging.getLogger("azure").addHandler(_QUIET)
    found, path = make(url, **options)
    return found, str(path)


def _tries_once(store: Any) -> None:
    """Azure's client tries four times in a minute, each time that we try; adlfs has no option for that."""
    policy = getattr(getattr(store.service_client, "_config", None), "retry_policy", None)
    if policy is not None and hasattr(policy, "total_retries"):
        policy.total_retries = 0


def entry_of(url: str) -> Entry | None:
    """The object at this URL, None where the URL is that of a folder. Raises `TpuprofError`."""
    store, path = filesystem(url)
    if url.endswith("/"):
        return None
    try:
        info = tried(url, lambda: store.info(path))
    except TpuprofError as error:
        if error.code is Code.NOT_FOUND and scheme_of(url) in _WEB:
            raise
        if error.code is Code.NOT_FOUND and entries_below(url):
            return None
        raise
    if info.get("type") == "directory" or _is_index(url, info):
        return None
    return Entry(url, "", _size(info), _modified(info))


def entries_below(url: str) -> list[Entry]:
    """All objects below a folder, by path. Raises `TpuprofError`."""
    store, path = filesystem(url)
    # A bucket lists all keys at once; behind a web server each folder is a page of links.
    depth = _DEPTH if scheme_of(url) in _WEB else None
    found = tried(url, lambda: store.find(path, maxdepth=depth, detail=True))
    root = path.rstrip("/")
    entries = []
    for name, info in found.items():
        below = str(name)[len(root) :].lstrip("/")
        # A key may hold "..", and a listing is not ours: nothing is ever written above the folder.
        if not below or info.get("type") == "directory" or ".." in below.split("/") or below.endswith("/"):
            continue
        # adlfs names a blob without the account, which may stand in the URL alone.
        full = joined(url, below) if scheme_of(url) in AZURE else str(store.unstrip_protocol(name))
        entries.append(Entry(full, below, _size(info), _modified(info)))
    return sorted(entries, key=lambda each: each.below)


def fetch(entry: Entry, target: Path) -> None:
    """Write the object to a file; large ones by ranges, side by side. Raises `TpuprofError`."""
    store, path = filesystem(entry.url)
    size = entry.size if entry.size >= 0 else _size(tried(entry.url, lambda: store.info(path)))
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        if size <= PIECE_BYTES:
            file.write(tried(entry.url, lambda: _whole(store, path, size)))
            return
        starts = range(0, size, PIECE_BYTES)
        with ThreadPoolExecutor(REQUESTS) as pool:
            pieces = pool.map(
                lambda start: tried(
                    entry.url, lambda: _piece(store, path, start, min(start + PIECE_BYTES, size), size)
                ),
                starts,
            )
            for piece in pieces:
                file.write(piece)


def put(source: Path, url: str) -> None:
    """Copy a file into a store. Raises `TpuprofError`."""
    store, path = filesystem(url)
    tried(url, lambda: store.put_file(str(source), path))


def put_new(source: Path, url: str) -> bool:
    """Copy a file to where nothing is; False where something is, also of a process that writes at the same moment.

    Raises `TpuprofError`.
    """
    store, path = filesystem(url)
    begun = False

    def work() -> bool:
        nonlocal begun
        try:
            # Stores without conditional writes are asked before.
            if store.exists(path):
                raise FileExistsError
            begun = True
            store.put_file(str(source), path, mode="create")
        except Exception as error:
            if not (isinstance(error, FileExistsError) or status_of(error) in _TAKEN):
                raise
            # A try before this one may have arrived, and its answer not.
            return begun and bytes(store.cat_file(path)) == source.read_bytes()
        return True

    return tried(url, work)


def content(url: str) -> bytes:
    """All of a small object. Raises `TpuprofError`."""
    store, path = filesystem(url)
    return tried(url, lambda: bytes(store.cat_file(path)))


def remove(entries: list[Entry]) -> None:
    """Remove objects. Raises `TpuprofError`."""
    for each in entries:
        _remove(each.url)


def _remove(url: str) -> None:
    store, path = filesystem(url)
    tried(url, lambda: store.rm_file(path))


def _whole(store: Any, path: str, size: int) -> bytes:
    data = bytes(store.cat_file(path))
    if 0 <= size != len(data):
        raise TruncatedError(f"{len(data)} of {size} bytes")
    return data


def _piece(store: Any, path: str, start: int, end: int, size: int) -> bytes:
    data = bytes(store.cat_file(path, start=start, end=end))
    if len(data) == size and size > end - start:
        return data[start:end]  # a server without ranges sends all
    if len(data) != end - start:
        raise TruncatedError(f"{len(data)} of {end - start} bytes")
    return data


def _is_index(url: str, info: dict[str, Any]) -> bool:
    """Whether a web server gives a page of links, not a file."""
    return scheme_of(url) in _WEB and str(info.get("mimetype") or "") == "text/html"


def _size(info: dict[str, Any]) -> int:
    size = info.get("size")
    return int(size) if size is not None else -1


def _modified(info: dict[str, Any]) -> float:
    """When it was last written (s since 1970), 0 where the store does not say."""
    for key in ("mtime", "LastModified", "updated", "last_modified", "timeCreated", "created"):
        found: Any = info.get(key)
        if hasattr(found, "timestamp"):
            return float(found.timestamp())
        if isinstance(found, (int, float)):
            return float(found)
        if isinstance(found, str):
            from datetime import datetime

            try:
                return datetime.fromisoformat(found).timestamp()
            except ValueError:
                continue
    return 0.0
