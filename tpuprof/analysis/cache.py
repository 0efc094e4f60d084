"""Reports of files already analyzed, so that looking at the same capture again costs no analysis.

A report is kept as its JSON under a key made of what it was computed from: tpuprof's version and the state of its
modules, and of every file its path, size, time of last change and a hash of samples of its bytes. Hashing all of
a large trace would take as long as the rest of a cached run; a file that was written again differs in its time or
size, one that was swapped for another of the same size and time differs in its samples, which include both ends.

Nothing here fails a command: where the folder cannot be used, reports are computed each time.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tpuprof.model.span_notes import notes_file
from tpuprof.records import record
from tpuprof.run_folder import NOTES, PROOFS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuprof.decode.find import Found

FOLDER_VARIABLE = "TPUPROF_CACHE_DIR"
# What all reports may take together; the least recently used go first (bytes). A report of a long run on many
# hosts takes some ten MB, most take less than one.
MAX_BYTES = 256 * 2**20
# Samples of a file that go into its key: this many, evenly spaced, first and last included (bytes each).
SAMPLES = 64
SAMPLE_BYTES = 8192
# Bytes of hash, as in keys and as the check of an entry.
_DIGEST_BYTES = 20
_SUFFIX = ".report.json"
_PACKAGE = Path(__file__).resolve().parent.parent


@record(frozen=True)
class Usage:
    """Where the cache is, how many reports it holds and how many bytes they take."""

    folder: Path
    entries: int
    bytes: int


def folder() -> Path:
    """Where reports are kept: `TPUPROF_CACHE_DIR`, else the user's cache folder for tpuprof."""
    import platformdirs

    given = os.environ.get(FOLDER_VARIABLE)
    return (Path(given) if given else Path(platformdirs.user_cache_dir("tpuprof"))) / "reports"


def key(found: Found) -> str:
    """The key of the report of these files, as hexadecimal digits. Raises `OSError` where one cannot be read."""
    state = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for own in _own_files():
        _add(state, own, os.stat(own))
    for name, path in found.files.items():
        _add(state, name, path.absolute(), path.stat())
        _add_samples(state, path)
    for path in _notes(found):
        _add(state, path, path.stat())
        _add_samples(state, path)
    # The report says what it was given and what lay beside it.
    _add(state, list(map(str, found.files.values())), found.run_folder, found.warnings)
    return state.hexdigest()


def _own_files() -> Iterator[str]:
    """What tpuprof itself consists of, in order."""
    for folder, below, names in os.walk(_PACKAGE):
        below[:] = sorted(name for name in below if name != "__pycache__")
        for name in sorted(names):
            if name.endswith((".py", ".toml", ".so")):
                yield os.path.join(folder, name)


def read(entry: str) -> str | None:
    """The report kept under a key, as the JSON it was written with; None where there is none or it is damaged."""
    path = folder() / (entry + _SUFFIX)
    try:
        digest, _, text = path.read_bytes().partition(b"\n")
        if digest.decode("ascii", "replace") != _digest(text):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # used now, so it goes last
        return text.decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def write(entry: str, text: str) -> None:
    """Keep a report's JSON under a key, and drop what has not been used for longest where that is too much."""
    data = text.encode("utf-8")
    if len(data) > MAX_BYTES // 4:
        return
    with contextlib.suppress(OSError):
        home = folder()
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Under a name of this thread's own first: whoever reads meanwhile sees a whole entry or none.
        unfinished = home / f"{entry}.{os.getpid()}.{threading.get_ident()}"
        with open(unfinished, "wb", opener=_private) as file:
            file.write(_digest(data).encode("ascii") + b"\n" + data)
        unfinished.replace(home / (entry + _SUFFIX))
        _trim(home)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def usage() -> Usage:
    """What the cache takes now."""
    home = folder()
    sizes = [size for _, size, _ in _entries(home)]
    return Usage(home, len(sizes), sum(sizes))


def _trim(home: Path) -> None:
    room = MAX_BYTES
    for _, size, path in sorted(_entries(home), reverse=True):
        room -= size
        if room < 0:
            path.unlink(missing_ok=True)


def _entries(home: Path) -> Iterator[tuple[int, int, Path]]:
    """When each entry was last used (ns), its size and its place; unfinished ones of killed processes too."""
    with contextlib.suppress(OSError):
        for path in home.iterdir():
            with contextlib.suppress(OSError):
                state = path.stat()
                yield state.st_mtime_ns, state.st_size, path


def _notes(found: Found) -> list[Path]:
    """What tpuprof itself wrote beside a capture, or elsewhere for it; the report is made from that too."""
    noted = notes_file(found)
    elsewhere = [noted] if noted.is_file() else []
    if found.run_folder is None:
        return elsewhere
    own = (found.run_folder / NOTES, found.run_folder / PROOFS)
    return sorted({*elsewhere, *(path for folder in own for path in folder.rglob("*") if path.is_file())})


def _add(state: hashlib.blake2b, *parts: object) -> None:
    for part in parts:
        value = (part.st_size, part.st_mtime_ns) if isinstance(part, os.stat_result) else part
        state.update(repr(value).encode("utf-8", "backslashreplace") + b"\0")


def _add_samples(state: hashlib.blake2b, path: Path) -> None:
    size = path.stat().st_size
    if not path.is_file():  # a pipe would be waited for
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    with path.open("rb") as file:
        for number in range(SAMPLES):
            file.seek(max(size - SAMPLE_BYTES, 0) * number // (SAMPLES - 1))
            state.update(file.read(SAMPLE_BYTES))


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
