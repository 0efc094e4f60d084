"""Uploaded files: streamed to disk within bounds, kept until they are removed or the dashboard ends."""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tpuprof.errors import Code, TpuprofError
from tpuprof.model.span_notes import notes_beside
from tpuprof_dashboard.runs import Source

# Largest upload (bytes). What an analysis holds in memory grows with it; larger traces are given as paths.
MAX_UPLOAD_BYTES = 64 * 2**20
# Uploads kept at a time, so that they cannot fill the disk (files).
MAX_UPLOADS = 8
# What a compressed upload may inflate to (bytes): some four times, which is what traces shrink by at least.
MAX_INFLATED_BYTES = 256 * 2**20
# Values that a JSON upload may hold (counted as commas and brackets): each takes up to some 90 bytes of memory, so that
# this many take about 1 GB. A trace of a million events has ten million.
MAX_JSON_VALUES = 12_000_000
_CHUNK = 2**20
# Endings by which the reader tells saved reports and bundles from traces.
_ENDINGS = (".zip", ".json")
_GZIP_MAGIC = b"\x1f\x8b"
_VALUES = re.compile(rb"[,\[{]")


class Uploads:
    """The uploads of one dashboard. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: dict[str, Source] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()
        self._count = 0
        self._underway = 0

    def kept(self) -> dict[str, Source]:
        """What is kept, by name, the newest first."""
        with self._lock:
            return dict(reversed(self._kept.items()))

    def add(self, filename: str, data: IO[bytes]) -> Source:
        """Write an upload to disk and keep it.

        Raises `TpuprofError` (`input-too-large`) where it is too large, inflates too much, or is one too many.
        """
        name = _base(filename)
        path, number = self._begin(name)
        try:
            _copy(name, data, path)
            check_contents(name, path)
            # Notes on it go with it.
            notes_beside(path).touch()
            with self._lock:
                run = Source(f"upload {number}: {name}", path, path.resolve(), time.time(), uploaded=True)
                self._kept[run.name] = run
            return run
        except BaseException:
            path.unlink(missing_ok=True)
            notes_beside(path).unlink(missing_ok=True)
            raise
        finally:
            with self._lock:
                self._underway -= 1

    def remove(self, name: str) -> bool:
        """Delete one upload; False where there is none of that name."""
        with self._lock:
            source = self._kept.pop(name, None)
        if source is not None:
            source.path.unlink(missing_ok=True)
            notes_beside(source.path).unlink(missing_ok=True)
        return source is not None

    def close(self) -> None:
        """Delete all of them."""
        with self._lock:
            self._kept.clear()
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None

    def _begin(self, name: str) -> tuple[Path, int]:
        """Take one of the few places; where to write, and the upload's number."""
        with self._lock:
            if len(self._kept) + self._underway >= MAX_UPLOADS:
                raise TpuprofError(
                    Code.TOO_LARGE,
                    f"{name}: {MAX_UPLOADS} uploads are kept at most.",
                    "Remove one of them, or start the dashboard with the path of this trace.",
                )
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(
                    prefix="tpuprof-upload-", ignore_cleanup_errors=True
                )
            self._underway += 1
            self._count += 1
            ending = next((each for each in _ENDINGS if name.lower().endswith(each)), "")
            return Path(self._folder.name) / f"upload{self._count}{ending}", self._count


def check_contents(name: str, path: Path) -> None:
    """Refuse a file that would take far more memory than its size says.

    Raises `TpuprofError` (`input-too-large`).
    """
    values = size = 0
    json = False
    for number, part in enumerate(_contents(path)):
        json = json or (number == 0 and part.lstrip()[:1] in (b"{", b"["))
        size += len(part)
        values += len(_VALUES.findall(part)) if json else 0
        if size > MAX_INFLATED_BYTES or values > MAX_JSON_VALUES:
            raise _too_large(name)


def _base(filename: str) -> str:
    return Path(filename.replace("\\", "/").replace("\0", "")).name[:120] or "trace"


def _copy(name: str, data: IO[bytes], path: Path) -> None:
    """From the network to disk, a piece at a time."""
    left = MAX_UPLOAD_BYTES
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        while part := data.read(_CHUNK):
            left -= len(part)
            if left < 0:
                raise _too_large(name)
            file.write(part)


def _parts(path: Path) -> Iterator[bytes]:
    """The pieces of a file."""
    with path.open("rb") as file:
        while part := file.read(_CHUNK):
            yield part


def _contents(path: Path) -> Iterator[bytes]:
    """The pieces of what is read of a file: the report in a bundle, what a compressed trace inflates to, or itself."""
    from tpuprof.report.saved import is_saved_report

    with path.open("rb") as file:
        head = file.read(2)
    if path.suffix == ".zip" and is_saved_report(path):
        return _of_bundle(path)
    return _inflated(path) if head == _GZIP_MAGIC else _parts(path)


def _of_bundle(path: Path) -> Iterator[bytes]:
    """The pieces of a bundle's report; damaged data ends them, and is left to the reader to explain."""
    from tpuprof.report.load import UNREADABLE_BUNDLE, parts_of_bundled_report

    try:
        yield from parts_of_bundled_report(path)
    except UNREADABLE_BUNDLE:
        return


def _inflated(path: Path) -> Iterator[bytes]:
    """The pieces of a gzip file's contents; damaged data ends them, and is left to the reader to explain."""
    inflate = zlib.decompressobj(wbits=31)
    for part in _parts(path):
        left = part
        while left:
            try:
                yield inflate.decompress(left, _CHUNK)
            except zlib.error:
                return
            left = inflate.unconsumed_tail
            if inflate.eof:  # another member may follow
                left = inflate.unused_data
                inflate = zlib.decompressobj(wbits=31)


def _too_large(name: str) -> TpuprofError:
    return TpuprofError(
        Code.TOO_LARGE,
        f"{name}: larger than an upload may be ({MAX_UPLOAD_BYTES // 2**20} MiB, "
        f"{MAX_INFLATED_BYTES // 2**20} MiB inflated).",
        "Start the dashboard with the path of this trace.",
    )
